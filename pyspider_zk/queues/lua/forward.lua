-- KEYS: list, ready, dead letters, wake-ups, stream...
-- ARGV: raw, kind, limit of a stream, of the dead letters, wake-ups that are kept,
--       number of parts, slot per stream, (number of its stream, body) per part,
--       (reason, body) per rejected task
local streams, woken = #KEYS - 4, {}
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return 0 end
local limit = tonumber(ARGV[3])
redis.call('SCARD', KEYS[2])
redis.call('XLEN', KEYS[3])
redis.call('XLEN', KEYS[4])
for i = 1, streams do
  local length = redis.call('XLEN', KEYS[4 + i])
  if limit > 0 and length >= limit then return 0 end
end
local first = 7 + streams
local last = first + 2 * tonumber(ARGV[6])
for i = first, last - 1, 2 do
  redis.call('XADD', KEYS[4 + tonumber(ARGV[i])], '*', 'body', ARGV[i + 1])
end
for i = 1, streams do
  if redis.call('SADD', KEYS[2], ARGV[6 + i]) == 1 then woken[#woken + 1] = KEYS[4 + i] end
end
if #woken > 0 then
  redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[5], '*', 'queues', table.concat(woken, ','))
end
for i = last, #ARGV, 2 do
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[4], '*',
             'reason', ARGV[i], 'kind', ARGV[2], 'body', ARGV[i + 1])
end
redis.call('LPOP', KEYS[1])
return 1
