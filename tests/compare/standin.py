"""Stands in for a peer's program, or for the driver: standin.py BEHAVIOUR --control ... --socket ... --cpus ..."""
import json
import signal
import socket
import sys
import time
from pathlib import Path


def serve(behaviour):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(sys.argv[sys.argv.index("--socket") + 1])
    hello = {"peer": "standin", "version": "standin 1", "ranks": 2, "can": ["all_reduce float32 private"]}
    stream.sendall(json.dumps(hello).encode() + b"\n")
    for order in stream.makefile():
        if behaviour == "hang":
            time.sleep(60)
        if behaviour == "die":
            print("-----\nout of luck\n-----", flush=True)
            sys.exit(4)
        answer = json.dumps({"time_us": int(order.split()[4])}) + "\n"
        stream.sendall(answer[:5].encode())  # in two pieces, as a stream may
        time.sleep(0.05)
        stream.sendall(answer[5:].encode())


def drive(pid_file):
    """A driver with one program, which waits to be ended."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "compare"))
    from types import SimpleNamespace

    import main
    from session import Session
    main.go_on(None)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not
    peer = SimpleNamespace(name="standin", environment={}, command=lambda ranks, arguments: [
        sys.executable, __file__, "answer", *arguments])
    session = Session(peer, 2, [0, 1])
    try:
        Path(pid_file + ".new").write_text(str(session.process.pid))
        Path(pid_file + ".new").rename(pid_file)
        time.sleep(60)
    finally:
        session.close(patient=False)


behaviour = sys.argv[1]
if behaviour == "drive":
    drive(sys.argv[2])
elif behaviour == "refuse":
    print("no such fabric", file=sys.stderr)
    sys.exit(3)
elif behaviour == "sleep":
    time.sleep(60)
else:
    if behaviour == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve(behaviour)
