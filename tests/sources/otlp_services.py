"""Sends spans of three services with the OpenTelemetry SDK: web calls shop, which calls db, twenty times.

The tests run it with OTEL_EXPORTER_OTLP_ENDPOINT set.
"""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

providers = {}
for service in ["web", "shop", "db"]:
    providers[service] = TracerProvider(resource=Resource.create({"service.name": service}))
    providers[service].add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
web, shop, db = (provider.get_tracer("test") for provider in providers.values())

for number in range(20):
    with web.start_as_current_span("page", kind=SpanKind.SERVER):
        with web.start_as_current_span("GET /cart", kind=SpanKind.CLIENT):
            with shop.start_as_current_span("GET /cart", kind=SpanKind.SERVER):
                with shop.start_as_current_span("prices", kind=SpanKind.INTERNAL):
                    with shop.start_as_current_span("query", kind=SpanKind.CLIENT):
                        with db.start_as_current_span("query", kind=SpanKind.SERVER) as query:
                            if number % 4 == 0:
                                query.set_status(Status(StatusCode.ERROR, "no such table"))
# In another order than that of the calls.
for service in ["db", "web", "shop"]:
    providers[service].shutdown()
