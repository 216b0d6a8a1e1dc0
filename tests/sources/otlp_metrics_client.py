"""Sends metrics of every kind with the OpenTelemetry SDK: the first argument is http or grpc, the second delta or cumulative."""

import sys

from opentelemetry import trace
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import (
    AlwaysOnExemplarFilter,
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    ObservableGauge,
    ObservableUpDownCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

protocol, temporality = sys.argv[1:3]
if protocol == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
else:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

wanted = AggregationTemporality.DELTA if temporality == "delta" else AggregationTemporality.CUMULATIVE
kinds = [Counter, Histogram, ObservableCounter]
exporter = OTLPMetricExporter(preferred_temporality={kind: wanted for kind in kinds})
reader = PeriodicExportingMetricReader(exporter, 3600_000)
resource = Resource.create({"service.name": "shop", "service.instance.id": sys.argv[3], "deployment": "test"})
provider = MeterProvider(
    metric_readers=[reader],
    resource=resource,
    exemplar_filter=AlwaysOnExemplarFilter(),
    views=[View(instrument_name="shop.size", aggregation=ExponentialBucketHistogramAggregation())],
)
meter = provider.get_meter("shop.lib", "1.2")
orders = meter.create_counter("shop.orders", "{order}", "Orders so far.")
cart = meter.create_up_down_counter("shop.cart.items", "{item}", "Items in carts.")
meter.create_observable_gauge(
    "shop.temperature", [lambda _: [Observation(-3.5, {"room": "cold store"})]], "Cel", "Of the air."
)
duration = meter.create_histogram("http.server.request.duration", "s", "Of requests.")
size = meter.create_histogram("shop.size", "By", "Of baskets.")
tracer = TracerProvider(resource=resource).get_tracer("shop.lib")
for round in range(2):
    with tracer.start_as_current_span("order"):
        orders.add(2, {"item": "tea", "paid": True})
        orders.add(1, {"item": "milk", "paid": False})
        duration.record(0.03, {"http.route": "/cart"})
        duration.record(0.7, {"http.route": "/cart"})
    cart.add(3)
    cart.add(-1)
    for number in [1, 10, 100, 1000]:
        size.record(number)
    assert provider.force_flush()
provider.shutdown()
