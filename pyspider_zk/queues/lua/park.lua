-- What adds comes before what deletes: a Redis out of memory refuses the first, and is left as it
-- was; done a second time it makes no difference.
--
-- KEYS: lot, ready, stream (none: the source is in the lot)
-- ARGV: slot, source, limit, name, body, what it replaces (maybe)
local is_there
if KEYS[3] then
  is_there = #redis.call('XRANGE', KEYS[3], ARGV[2], ARGV[2])
else
  is_there = redis.call('HEXISTS', KEYS[1], ARGV[2])
end
if is_there == 0 then return 1 end
local limit = tonumber(ARGV[3])
if limit > 0 and redis.call('HLEN', KEYS[1]) >= limit then return 0 end
redis.call('HSET', KEYS[1], ARGV[4], ARGV[5])
redis.call('SADD', KEYS[2], ARGV[1])
if ARGV[6] then redis.call('HDEL', KEYS[1], ARGV[6]) end
if KEYS[3] then redis.call('XDEL', KEYS[3], ARGV[2]) else redis.call('HDEL', KEYS[1], ARGV[2]) end
return 1
