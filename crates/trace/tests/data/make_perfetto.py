"""Writes perfetto_small.pftrace with Google's own encoder (packages perfetto and protobuf).

So the reader is not tested against itself.
"""

import pathlib
import zlib

from google.protobuf import descriptor_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

trace = pb.Trace()

packet = trace.packet.add()
packet.system_info.utsname.sysname = "Linux"
packet.system_info.utsname.version = "#1 SMP"
packet.system_info.utsname.release = "6.12.0"
packet.system_info.utsname.machine = "aarch64"
packet.system_info.num_cpus = 4

tree = trace.packet.add().process_tree
process = tree.processes.add()
process.pid, process.ppid = 100, 1
process.cmdline.append("/usr/bin/worker")
thread = tree.threads.add()
thread.tid, thread.tgid, thread.name = 101, 100, "worker-io"

bundle = trace.packet.add().ftrace_events
bundle.cpu = 0
event = bundle.event.add()
event.timestamp, event.pid = 1000, 100
event.sched_switch.prev_comm, event.sched_switch.prev_pid, event.sched_switch.prev_prio = "worker", 100, 120
event.sched_switch.prev_state = 1
event.sched_switch.next_comm, event.sched_switch.next_pid, event.sched_switch.next_prio = "swapper/0", 0, 120
event = bundle.event.add()
event.timestamp, event.pid = 1100, 0
event.cpu_idle.state, event.cpu_idle.cpu_id = 4294967295, 0
event = bundle.event.add()
event.timestamp, event.pid = 5000, 100
event.print.ip, event.print.buf = 0xFFFF0000819FF240, "rtapp_main: event=start\n"
event = bundle.event.add()
event.timestamp, event.pid = 5100, 100
event.generic.event_name = "upd_se"
field = event.generic.field.add()
field.name, field.uint_value = "util_avg", 412
field = event.generic.field.add()
field.name, field.int_value = "delta", -7
field = event.generic.field.add()
field.name, field.str_value = "who", "me"
event = bundle.event.add()
event.timestamp, event.pid = 5200, 100
event.kprobe_event.name, event.kprobe_event.type = "my_probe", 1

inner = pb.Trace()
bundle = inner.packet.add().ftrace_events
bundle.cpu, bundle.lost_events = 2, True
event = bundle.event.add()
event.timestamp, event.pid = 1050, 0
event.cpu_frequency.state, event.cpu_frequency.cpu_id = 1800000, 2
compact = bundle.compact_sched
compact.intern_table.extend(["swapper/2", "worker-io"])
compact.switch_timestamp.extend([1200, 300])
compact.switch_prev_state.extend([0, 130])
compact.switch_next_pid.extend([101, 0])
compact.switch_next_prio.extend([98, 120])
compact.switch_next_comm_index.extend([1, 0])
compact.waking_timestamp.extend([1150, 200])
compact.waking_pid.extend([101, 101])
compact.waking_target_cpu.extend([2, 3])
compact.waking_prio.extend([98, 98])
compact.waking_comm_index.extend([1, 1])
trace.packet.add().compressed_packets = zlib.compress(inner.SerializeToString())

bundle = trace.packet.add().ftrace_events
bundle.cpu = 1
descriptor = descriptor_pb2.DescriptorProto(name="thermal_private")
descriptor.field.add(name="celsius", number=1, type=5, label=1)
descriptor.field.add(name="zone", number=2, type=9, label=1)
generic = bundle.generic_event_descriptors.add()
generic.field_id, generic.group_name, generic.event_descriptor = 70000, "thermal", descriptor.SerializeToString()
event = bundle.event.add()
event.timestamp, event.pid = 1300, 5


def varint(value):
    """Encode an unsigned number as protobuf does."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


# A message with a number that the schema does not have: a negative int32 and a string.
body = b"\x08" + varint((1 << 64) - 5) + b"\x12\x03cpu"
event.MergeFromString(varint(70000 << 3 | 2) + varint(len(body)) + body)
event = bundle.event.add()
event.timestamp, event.pid = 1400, 5
body = b"\x08\x2a\x1a\x02hi"
event.MergeFromString(varint(9999 << 3 | 2) + varint(len(body)) + body)

pathlib.Path(__file__).with_name("perfetto_small.pftrace").write_bytes(trace.SerializeToString())
