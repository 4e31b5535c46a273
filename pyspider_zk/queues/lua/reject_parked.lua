-- KEYS: lot, ready, dead letters   ARGV: slot, name, kind, reason, limit of the dead letters
local body = redis.call('HGET', KEYS[1], ARGV[2])
if not body then return end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*',
           'reason', ARGV[4], 'kind', ARGV[3], 'slot', ARGV[1], 'body', body)
redis.call('HDEL', KEYS[1], ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
