-- KEYS: stream, dead letters   ARGV: tag, reason, kind, slot, limit
redis.call('XLEN', KEYS[2])
local found = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
if #found == 0 then return end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*',
           'reason', ARGV[2], 'kind', ARGV[3], 'slot', ARGV[4], 'body', found[1][2][2])
redis.call('XDEL', KEYS[1], ARGV[1])
