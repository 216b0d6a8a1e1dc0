"""A receiver of OTLP over HTTP or gRPC that writes down what comes: one JSON object a request, on standard output.

Arguments: `http` or `grpc`, the port, and how the first requests are answered, one word each, then always `ok`:

    ok            takes it
    later=N       503 with Retry-After, UNAVAILABLE with RetryInfo: after N seconds
    partial=N     takes all but N of its items
    refuse        400, INVALID_ARGUMENT
    bar           401, UNAUTHENTICATED
    die           ends the process in the middle of the request
    silent        takes it and closes the connection without an answer
    slow=N        answers after N seconds

With OTLP_TLS=CERTIFICATE,KEY it speaks https; with OTLP_TOKEN it takes nothing from whoever does not send it.
"""

import gzip
import json
import os
import ssl
import sys
import threading
import time
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

protocol, port = sys.argv[1], int(sys.argv[2])
plan = sys.argv[3:]
token = os.environ.get("OTLP_TOKEN")
lock = threading.Lock()
KINDS = {
    "metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse, "rejected_data_points"),
    "traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse, "rejected_spans"),
    "logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse, "rejected_log_records"),
}


def next_answer():
    with lock:
        word, _, number = (plan.pop(0) if plan else "ok").partition("=")
    return word, float(number or 0)


def note(kind, message, answer, headers):
    record = {"kind": kind, "answer": answer, "headers": headers, "message": MessageToDict(message)}
    record["raw"] = message.SerializeToString().hex()
    with lock:
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


def response_of(kind, word, number):
    _, response, field = KINDS[kind]
    answer = response()
    if word == "partial":
        setattr(answer.partial_success, field, int(number))
        answer.partial_success.error_message = "too many of them"
    return answer


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        kind = self.path.removeprefix("/v1/")
        message = KINDS[kind][0].FromString(body)
        word, number = next_answer()
        if token and self.headers.get("authorization") != "Bearer " + token:
            word = "bar"
        note(kind, message, word, dict(self.headers))
        if word == "die":
            os._exit(1)
        if word == "silent":
            self.close_connection = True
            return
        if word == "slow":
            time.sleep(number)
        status = {"later": 503, "refuse": 400, "bar": 401}.get(word, 200)
        answer = response_of(kind, word, number).SerializeToString() if status == 200 else b""
        self.send_response(status)
        if word == "later":
            self.send_header("Retry-After", str(int(number)))
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


def serve_http():
    server = ThreadingHTTPServer(("localhost", port), Http)
    if "OTLP_TLS" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*os.environ["OTLP_TLS"].split(","))
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def retry_info(seconds):
    """google.rpc.Status { details: [Any { RetryInfo { retry_delay } }] }, by hand: its package is not among those installed."""

    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    delay = field(1, bytes([8, int(seconds)]))
    detail = field(1, b"type.googleapis.com/google.rpc.RetryInfo") + field(2, delay)
    return bytes([8, 14]) + field(3, detail)


def serve_grpc():
    import grpc

    def export(kind):
        def call(message, context):
            word, number = next_answer()
            headers = {key: value for key, value in context.invocation_metadata() if isinstance(value, str)}
            if token and headers.get("authorization") != "Bearer " + token:
                word = "bar"
            note(kind, message, word, headers)
            if word == "die":
                os._exit(1)
            if word == "later":
                context.set_trailing_metadata((("grpc-status-details-bin", retry_info(number)),))
                context.abort(grpc.StatusCode.UNAVAILABLE, "later")
            if word == "refuse":
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")
            if word == "bar":
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")
            if word == "slow":
                time.sleep(number)
            return response_of(kind, word, number)

        return call

    def handler(service, kind):
        request, response, _ = KINDS[kind]
        method = grpc.unary_unary_rpc_method_handler(
            export(kind), request_deserializer=request.FromString, response_serializer=response.SerializeToString
        )
        name = f"opentelemetry.proto.collector.{service}Service"
        return grpc.method_handlers_generic_handler(name, {"Export": method})

    server = grpc.server(futures.ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers(
        (handler("metrics.v1.Metrics", "metrics"), handler("trace.v1.Trace", "traces"), handler("logs.v1.Logs", "logs"))
    )
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    server.wait_for_termination()


serve_grpc() if protocol == "grpc" else serve_http()
