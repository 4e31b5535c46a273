-- KEYS: ready, stream...   ARGV: slot...
for i = 2, #KEYS do
  if redis.call('XLEN', KEYS[i]) == 0 then redis.call('SREM', KEYS[1], ARGV[i - 1]) end
end
