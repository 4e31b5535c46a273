-- KEYS: key, its new name, the hash   ARGV: value, why
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.pcall('HSET', KEYS[3], KEYS[2], ARGV[2])
return 1
