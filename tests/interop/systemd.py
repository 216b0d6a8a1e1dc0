"""systemd, as far as a unit with FileDescriptorStoreMax= and Restart=always sees of it: starts a command again whenever it ends,
with the descriptors that it has stored. Ends with SIGTERM, as does the command."""
import os
import selectors
import signal
import socket
import subprocess
import sys

notify = sys.argv[1]
door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
door.bind(notify)
store = []
ended, stopping = socket.socketpair()
ended.setblocking(False)
stopping.setblocking(False)
signal.set_wakeup_fd(stopping.fileno())
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.signal(signal.SIGTERM, lambda *_: None)


def start():
    fds = [fd for _, fd in store]
    names = ":".join(name for name, _ in store)

    def place():
        # First out of the way, then where they belong.
        for target, fd in enumerate([os.dup2(fd, 100 + n) for n, fd in enumerate(fds)], 3):
            os.dup2(fd, target)
        os.closerange(3 + len(fds), 200)

    script = 'export LISTEN_PID=$$ SYSTEMD_EXEC_PID=$$; exec "$@"'
    env = dict(os.environ, NOTIFY_SOCKET=notify, LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=names)
    return subprocess.Popen(["/bin/sh", "-c", script, "sh"] + sys.argv[2:], env=env, preexec_fn=place, close_fds=False)


def hear():
    text, fds, _, _ = socket.recv_fds(door, 4096, 8)
    said = dict(line.split("=", 1) for line in text.decode().splitlines())
    if said.get("FDSTORE") == "1":
        store.extend((said["FDNAME"], fd) for fd in fds)
    elif said.get("FDSTOREREMOVE") == "1":
        for entry in [entry for entry in store if entry[0] == said["FDNAME"]]:
            store.remove(entry)
            os.close(entry[1])
    else:
        assert said == {"BARRIER": "1"}, said
        for fd in fds:
            os.close(fd)


child = start()
selector = selectors.DefaultSelector()
selector.register(door, selectors.EVENT_READ)
selector.register(ended, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        if key.fileobj is door:
            hear()
            continue
        if signal.SIGTERM in ended.recv(64):
            child.terminate()
            child.wait()
            os.unlink(notify)
            sys.exit(0)
        if child.poll() is not None:
            child = start()
