#!/usr/bin/env python3
"""Captures PDUs from a real PCP into the .hex files next to this script.

    capture.py client HOST PORT [SOCKET]    raw client sessions with a pmcd that has the sample agent
    capture.py tee FILE COMMAND...          as an agent in pmcd.conf: runs COMMAND between pmcd and itself
                                            and appends every PDU of both directions to FILE
    capture.py proxy FILE PORT HOST PMCD-PORT COMMAND...
                                            runs COMMAND, a PCP client that connects to PORT, and writes
                                            what it and the pmcd say to FILE

A .hex file holds '#' lines, saying how it was captured, and PDUs: '->' is towards the server or agent,
'<-' is its answer; continuation lines are indented. The files here are from PCP 6.0.3 (Debian 12).
"""
import os
import socket
import struct
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
(ERROR, RESULT, PROFILE, FETCH, DESC_REQ, DESC, INSTANCE_REQ, INSTANCE, TEXT_REQ, TEXT) = range(0x7000, 0x700a)
(CREDS, PMNS_IDS, PMNS_NAMES, PMNS_CHILD, PMNS_TRAVERSE, ATTR, LABEL_REQ, LABEL, HIGHRES_FETCH,
 HIGHRES_RESULT, DESC_IDS, DESCS) = range(0x700c, 0x7018)
ALL = 0xffffffff


def words(*values):
    return b"".join(struct.pack(">I", v & ALL) for v in values)


def padded(name):
    name = name.encode()
    return words(len(name)) + name + b"~" * (-len(name) % 4)


def shown(arrow, pdu):
    hexed = [pdu[i:i + 4].hex() for i in range(0, len(pdu), 4)]
    lines = [" ".join(hexed[i:i + 8]) for i in range(0, len(hexed), 8)]
    return arrow + " " + "\n   ".join(lines) + "\n"


def read_pdu(read):
    """One PDU; None at the end of the stream."""
    data = b""
    while len(data) < 4 or len(data) < struct.unpack(">i", data[:4])[0]:
        want = 4 if len(data) < 4 else struct.unpack(">i", data[:4])[0]
        more = read(want - len(data))
        if not more:
            return None
        data += more
    return data


class Session:
    def __init__(self, name, how, address, flags=0):
        self.file = open(os.path.join(HERE, name + ".hex"), "w")
        self.file.write("# PCP 6.0.3. " + how + "\n")
        self.sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.sock.connect(address)
        self.sock.settimeout(10)
        self.answer()
        self.send(CREDS, words(1, 0x01020000 | flags), os.getpid())

    def note(self, text):
        self.file.write("# " + text + "\n")

    def send(self, kind, body, sender=0):
        pdu = words(12 + len(body), kind, sender) + body
        self.file.write(shown("->", pdu))
        self.sock.sendall(pdu)

    def answer(self):
        pdu = read_pdu(self.sock.recv)
        self.file.write(shown("<-", pdu))
        return pdu

    def ask(self, kind, body):
        self.send(kind, body)
        return self.answer()

    def ids(self, *names):
        body = words(sum(len(n) + 1 for n in names), 0, len(names)) + b"".join(map(padded, names))
        reply = self.ask(PMNS_NAMES, body)
        return [w for (w,) in struct.iter_unpack(">I", reply[20:])]

    def fetch(self, kind, *pmids):
        self.send(kind, words(0, 0, 0, len(pmids), *pmids))
        while True:
            pdu = self.answer()
            if struct.unpack(">I", pdu[4:8])[0] != ERROR or struct.unpack(">i", pdu[12:16])[0] <= 0:
                return pdu

    def profile(self, state=0, entries=()):
        body = words(0, state, len(entries), 0)
        for indom, how, insts in entries:
            body += words(indom, how, len(insts), 0)
        self.send(PROFILE, body + b"".join(words(*insts) for _, _, insts in entries))


def client(address, unix):
    s = Session("pmns", "Raw client over TCP: the name space of the sample agent.", address)
    s.ids("sample.bin", "sample.long.one")
    s.note("one name unknown; all names unknown; a single unknown name; a non-leaf")
    s.ids("sample.bin", "no.such.name")
    s.ids("no.such.name", "nor.this")
    s.ids("no.such.name")
    s.ids("sample")
    s.note("all names of 29.0.6; an unknown identifier; an unknown domain")
    for pmid in (0x07400006, 0x074003ff, 0x32000001):
        s.ask(PMNS_IDS, words(0, 1, pmid))
    s.note("children without and with status, of a leaf, of the root, of an unknown name")
    for subtype, name in ((0, "sample.secret"), (1, "sample.secret"), (1, "sample.bin"), (1, ""), (0, "no.such")):
        s.ask(PMNS_CHILD, words(subtype) + padded(name))
    s.note("all below a name, a leaf, an unknown name")
    for name in ("sample.secret", "sample.bin", "no.such"):
        s.ask(PMNS_TRAVERSE, words(0) + padded(name))

    s = Session("desc", "Raw client over TCP: descriptors of the sample agent.", address)
    for pmid in (0x07400006, 0x07400017, 0x074003ff, 0x32000001):
        s.ask(DESC_REQ, words(pmid))
    s.note("several, one unknown; one alone; one alone and unknown")
    for pmids in ((0x07400006, 0x32000006, 0x0740001f, 0x07400088, 0x0740008b), (0x07400006,), (0x32000006,)):
        s.ask(DESC_IDS, words(ALL, len(pmids), *pmids))

    s = Session("instance", "Raw client over TCP: instances of 29.1 and 29.2.", address)
    for indom, inst, name in ((0x07400001, ALL, ""), (0x07400001, 1, ""), (0x07400001, ALL, "green"),
                              (0x07400002, ALL, ""), (0x07400001, 99, ""), (0x0740ffff, ALL, "")):
        s.ask(INSTANCE_REQ, words(indom, 0, 0, inst) + padded(name))

    s = Session("text", "Raw client over TCP: help text of the sample agent.", address)
    for ident, what in ((0x07400000, 5), (0x07400006, 6), (0x07400001, 9), (0x07400001, 10), (0x074003ff, 5)):
        s.ask(TEXT_REQ, words(ident, what))

    for name, kind in (("fetch", FETCH), ("highres_fetch", HIGHRES_FETCH)):
        s = Session(name, "Raw client over TCP: values of every type, profiles, errors.", address)
        s.note("no PROFILE yet")
        s.fetch(kind, 0x0740000a)
        s.profile()
        pmids = s.ids("sample.long.one", "sample.ulong.million", "sample.float.ten", "sample.longlong.million",
                      "sample.ulonglong.million", "sample.double.ten", "sample.string.hullo", "sample.string.null",
                      "sample.aggregate.hullo", "sample.aggregate.null", "sample.bin", "sample.noinst",
                      "sample.bogus_bin", "sample.colour")
        s.fetch(kind, *pmids)
        s.note("a domain without an agent, a metric twice, PM_ID_NULL")
        s.fetch(kind, 0x3200000a, pmids[0], pmids[0], ALL)
        s.note("nine 64-bit values")
        s.fetch(kind, *s.ids("sample.ulonglong.bin"))
        s.note("only instance 100 of 29.2; all but 100 and 300; none of any instance domain")
        for state, entries in ((1, [(0x07400002, 1, [100])]), (0, [(0x07400002, 0, [100, 300])]), (1, [])):
            s.profile(state, entries)
            s.fetch(kind, 0x07400006)
        s.note("event arrays of both kinds, three times")
        s.profile()
        events = s.ids("sample.event.records", "sample.event.highres_records")
        for _ in range(3):
            s.fetch(kind, *events)

    s = Session("store", "Raw client over TCP: store requests.", address)
    s.note("a 32-bit value, a string, a metric that cannot be stored, no metric, an unknown domain")
    write_me, string, fixed = s.ids("sample.write_me", "sample.string.write_me", "sample.long.one")
    one = lambda pmid: words(0, 0, 1, pmid, 1, 0, ALL, 2)
    s.ask(RESULT, one(write_me))
    s.ask(RESULT, words(0, 0, 1, string, 1, 1, ALL, 11, 0x06000009) + b"abcd\0~~~")
    s.ask(RESULT, one(fixed))
    s.ask(RESULT, words(0, 0, 0))
    s.ask(RESULT, one(0x3200000a))

    s = Session("label", "Raw client over TCP: labels at every level.", address)
    for ident, what in ((ALL, 1), (29, 2), (0x07400002, 4), (0x07400000, 8), (0x07400006, 16), (0x07400002, 32),
                        (0x07400001, 32), (300, 2), (0x07400002, 3)):
        s.ask(LABEL_REQ, words(ident, what))

    s = Session("unix", "Raw client over the Unix socket: container attribute, context labels.", unix, 0x40)
    s.send(ATTR, words(15) + b"mybox")
    s.ask(LABEL_REQ, words(ALL, 1))
    s.note("what is no request, and a request that is too short")
    s.ask(0x700a, b"")
    s.ask(FETCH, words(0))


def relay(log, lock, arrow, read, write, close):
    """Passes PDUs on and writes them to `log` until the end of the stream."""
    while (pdu := read_pdu(read)) is not None:
        with lock:
            log.write(shown(arrow, pdu))
            log.flush()
        write(pdu)
    close()


def tee(path, command):
    log, lock = open(path, "w"), threading.Lock()
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    back = threading.Thread(target=relay, args=(
        log, lock, "<-", lambda n: os.read(agent.stdout.fileno(), n), lambda b: os.write(1, b), lambda: os.close(1)))
    back.start()
    relay(log, lock, "->", lambda n: os.read(0, n), lambda b: os.write(agent.stdin.fileno(), b), agent.stdin.close)
    back.join()


def proxy(path, port, host, pmcd_port, command):
    log, lock = open(path, "w"), threading.Lock()
    log.write("# PCP 6.0.3. Proxy between pmcd and: " + " ".join(command) + "\n")
    listener = socket.create_server(("127.0.0.1", port))

    def serve():
        while True:
            near, far = listener.accept()[0], socket.create_connection((host, pmcd_port))
            for arrow, a, b in (("->", near, far), ("<-", far, near)):
                args = (log, lock, arrow, lambda n, a=a: receive(a, n), b.sendall, lambda b=b: shut(b))
                threading.Thread(target=relay, args=args, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def receive(sock, n):
    """libpcp closes with a reset."""
    try:
        return sock.recv(n)
    except ConnectionResetError:
        return b""


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


if sys.argv[1] == "tee":
    tee(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "proxy":
    proxy(sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]), sys.argv[6:])
else:
    client((sys.argv[2], int(sys.argv[3])), sys.argv[4])
