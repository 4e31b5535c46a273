-- KEYS: dead letters, inbox or stream, ready   ARGV: tag, slot (none: the inbox)
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return 0 end
local fields = found[1][2]
local body = fields[#fields]
if ARGV[2] then redis.call('XLEN', KEYS[2]) else redis.call('LLEN', KEYS[2]) end
redis.call('SCARD', KEYS[3])
if ARGV[2] then
  redis.call('XADD', KEYS[2], '*', 'body', body)
  redis.call('SADD', KEYS[3], ARGV[2])
else
  redis.call('RPUSH', KEYS[2], body)
end
redis.call('XDEL', KEYS[1], ARGV[1])
return 1
