-- KEYS: ready   ARGV: name of the streams without the slot, slots
-- One XREAD looks into all streams that should be empty, so an idle reader sends few commands. Their
-- slots are one argument, for the client takes as long for each as Redis does for looking into it.
local ready = redis.call('SMEMBERS', KEYS[1])
local known, slots, read = {}, {}, {'COUNT', 1, 'STREAMS'}
for _, slot in ipairs(ready) do known[slot] = true end
for slot in string.gmatch(ARGV[2], '%d+') do
  if not known[slot] then
    local stream = ARGV[1] .. slot
    slots[stream] = slot
    read[#read + 1] = stream
  end
end
local streams = #read - 3
if streams == 0 then return ready end
for _ = 1, streams do read[#read + 1] = '0' end
for _, found in ipairs(redis.call('XREAD', unpack(read)) or {}) do
  redis.pcall('SADD', KEYS[1], slots[found[1]])
  ready[#ready + 1] = slots[found[1]]
end
return ready
