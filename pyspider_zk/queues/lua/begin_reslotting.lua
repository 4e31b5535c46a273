-- KEYS: state   ARGV: slots before, after, epoch, prefix, what the keys of slots begin with...
if redis.call('EXISTS', KEYS[1]) == 1 then return end
for i = 5, #ARGV do
  for slot = 0, tonumber(ARGV[1]) - 1 do
    local key = ARGV[i] .. slot
    if redis.call('EXISTS', key) == 1 then redis.call('RENAME', key, ARGV[4] .. key) end
  end
end
redis.call('HSET', KEYS[1], 'before', ARGV[1], 'after', ARGV[2], 'epoch', ARGV[3])
