-- KEYS: old lot, new lot, ready   ARGV: name, slot
local body = redis.call('HGET', KEYS[1], ARGV[1])
if not body then return end
redis.call('HSET', KEYS[2], ARGV[1], body)
redis.call('SADD', KEYS[3], ARGV[2])
redis.call('HDEL', KEYS[1], ARGV[1])
