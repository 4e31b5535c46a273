-- KEYS: old stream, ready, dead letters, new stream...
-- ARGV: tag, kind, limit of the dead letters, number of parts, slot per new stream,
--       (number of its stream, body) per part, (reason, body) per reject
if #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1]) == 0 then return end
local streams = #KEYS - 3
local first = 5 + streams
local last = first + 2 * tonumber(ARGV[4])
for i = 1, streams do redis.call('SADD', KEYS[2], ARGV[4 + i]) end
for i = first, last - 1, 2 do
  redis.call('XADD', KEYS[3 + tonumber(ARGV[i])], '*', 'body', ARGV[i + 1])
end
for i = last, #ARGV, 2 do
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[3], '*',
             'reason', ARGV[i], 'kind', ARGV[2], 'body', ARGV[i + 1])
end
redis.call('XDEL', KEYS[1], ARGV[1])
