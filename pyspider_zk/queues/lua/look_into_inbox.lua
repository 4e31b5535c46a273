-- KEYS: list, dead letters   ARGV: messages, bytes of all, of one, that are kept, letters, kind
-- A message that is larger than it may be is cut and rejected here, once it is the head: it is not
-- even sent.
local room, found = tonumber(ARGV[2]), {}
redis.call('XLEN', KEYS[2])
for i = 0, tonumber(ARGV[1]) - 1 do
  local raw = redis.call('LINDEX', KEYS[1], i)
  if not raw or room <= 0 then break end
  if #raw > tonumber(ARGV[3]) then
    if i == 0 then
      local why = 'has ' .. #raw .. ' bytes, the limit is ' .. ARGV[3] .. '; this is the beginning'
      redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'reason', why, 'kind', ARGV[6],
                 'body', string.sub(raw, 1, ARGV[4]))
      redis.call('LPOP', KEYS[1])
    end
    break
  end
  found[#found + 1] = raw
  room = room - #raw
end
return found
