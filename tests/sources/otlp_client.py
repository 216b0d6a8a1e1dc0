"""Sends spans and log records with the OpenTelemetry SDK, as a program would that is set up by the environment.

The tests run it with OTEL_EXPORTER_OTLP_ENDPOINT set; what it prints last is the trace's id.
"""

import logging
import os

from opentelemetry import trace
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

resource = Resource.create({"service.name": "checkout", "service.instance.id": "pod-7", "deployment": "test"})
provider = TracerProvider(resource=resource)
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs = LoggerProvider(resource=resource)
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logger = logging.getLogger("shop")
logger.setLevel(logging.INFO)
logger.addHandler(LoggingHandler(logger_provider=logs))

tracer = provider.get_tracer("shop.lib")
with tracer.start_as_current_span("order", kind=SpanKind.SERVER) as order:
    order.set_attribute("http.status", 200)
    order.set_attribute("tags", ["a", "b"])
    with tracer.start_as_current_span("pay", links=[Link(order.get_span_context())]) as pay:
        pay.add_event("retry", {"attempt": 2})
        pay.set_status(Status(StatusCode.ERROR, "card declined"))
        logger.warning("card of %s declined", "bob", extra={"amount": 9.5})
for number in range(1000):
    with tracer.start_as_current_span("step") as step:
        step.set_attribute("number", number)
provider.shutdown()
logs.shutdown()
print(format(order.get_span_context().trace_id, "032x"))
