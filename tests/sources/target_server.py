"""Targets to scrape: an HTTP server whose paths are files of a directory, read for each request.

Arguments: the port, the directory. With TARGET_TLS=CERTIFICATE,KEY it speaks https. A path is the name of a file; what is behind a dot
in it says how the file is sent, one word after the other:

    om            as OpenMetrics, to whoever takes it
    gz            compressed with gzip, to whoever takes it
    token         to whoever sends `Authorization: Bearer` and what is in the file `token.expected`, and the header X-Key: key
    hang          not at all, and the connection stays open
    endless       again and again, without an end
    slow          a byte every 100 milliseconds
    cut           half of it
    moved         redirected to /plain
    headers       with headers without end
    noise         as what is in the file alone, without HTTP

The file `connections` of the directory gets a line for each connection.
"""

import gzip
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, directory = int(sys.argv[1]), sys.argv[2]


def read(name):
    with open(os.path.join(directory, name), "rb") as file:
        return file.read()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        with open(os.path.join(directory, "connections"), "a") as file:
            file.write("one\n")

    def do_GET(self):
        name = self.path.lstrip("/").split("?")[0]
        if name == "away":
            return self.send_error(404)
        body, words, headers = read(name), name.split(".")[1:], {}
        if "noise" in words:
            self.close_connection = True
            return self.wfile.write(body)
        if "token" in words:
            wanted = "Bearer " + read("token.expected").decode()
            if self.headers["Authorization"] != wanted or self.headers["X-Key"] != "key":
                return self.send_error(401)
        if "moved" in words:
            self.send_response(302)
            self.send_header("Location", "/plain")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if "hang" in words:
            return time.sleep(600)
        if "om" in words and "application/openmetrics-text" in self.headers["Accept"]:
            headers["Content-Type"] = "application/openmetrics-text; version=1.0.0; charset=utf-8"
        if "gz" in words and "gzip" in self.headers["Accept-Encoding"]:
            body = gzip.compress(body)
            headers["Content-Encoding"] = "gzip"
        self.send_response(200)
        for header in headers.items():
            self.send_header(*header)
        if "headers" in words:
            for n in range(100000):
                self.send_header(f"X-{n}", "x" * 100)
        if "endless" in words:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if "slow" in words:
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(0.1)
        elif "cut" in words:
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def handle(self):
        try:
            super().handle()
        except OSError:
            pass

    def log_message(self, *words):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *words):
        pass


server = Server(("127.0.0.1", port), Handler)
if os.environ.get("TARGET_TLS"):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*os.environ["TARGET_TLS"].split(","))
    server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
