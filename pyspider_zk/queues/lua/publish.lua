-- KEYS: ready of each kind, wake-ups, stream...
-- ARGV: wake-ups that are kept, (number of its ready key, slot) per stream,
--       (number of its stream, body) per message
-- A slot that is ready already needs no wake-up: its owner reads until it finds nothing.
local streams = #KEYS - 3
redis.call('SCARD', KEYS[1])
redis.call('SCARD', KEYS[2])
redis.call('XLEN', KEYS[3])
for i = 1, streams do redis.call('XLEN', KEYS[3 + i]) end
for i = 2 * streams + 2, #ARGV, 2 do
  redis.call('XADD', KEYS[3 + tonumber(ARGV[i])], '*', 'body', ARGV[i + 1])
end
local lengths, woken = {}, {}
for i = 1, streams do
  if redis.call('SADD', KEYS[tonumber(ARGV[2 * i])], ARGV[2 * i + 1]) == 1 then
    woken[#woken + 1] = KEYS[3 + i]
  end
  lengths[i] = redis.call('XLEN', KEYS[3 + i])
end
if #woken > 0 then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[1], '*', 'queues', table.concat(woken, ','))
end
return lengths
