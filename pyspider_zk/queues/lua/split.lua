-- KEYS: stream, ready; of a parked message also: lot, set of the slots with parked ones
-- ARGV: tag in the stream or name in the lot, slot, body...
local lot, is_there = KEYS[3], 0
if lot then
  is_there = redis.call('HEXISTS', lot, ARGV[1])
else
  is_there = #redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])
end
if is_there == 0 then return end
redis.call('SADD', KEYS[2], ARGV[2])
for i = 3, #ARGV do redis.call('XADD', KEYS[1], '*', 'body', ARGV[i]) end
if not lot then
  redis.call('XDEL', KEYS[1], ARGV[1])
else
  redis.call('HDEL', lot, ARGV[1])
  if redis.call('EXISTS', lot) == 0 then redis.call('SREM', KEYS[4], ARGV[2]) end
end
