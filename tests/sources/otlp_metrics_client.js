// Sends metrics of every kind with the OpenTelemetry SDK for Node: the first argument is http or grpc.
const { MeterProvider, PeriodicExportingMetricReader, AggregationType } = require('@opentelemetry/sdk-metrics');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const [protocol] = process.argv.slice(2);
const { OTLPMetricExporter } = require(`@opentelemetry/exporter-metrics-otlp-${protocol === 'grpc' ? 'grpc' : protocol}`);

const reader = new PeriodicExportingMetricReader({
  exporter: new OTLPMetricExporter(),
  exportIntervalMillis: 3600000,
});
const provider = new MeterProvider({
  resource: resourceFromAttributes({ 'service.name': 'web', 'service.instance.id': protocol }),
  readers: [reader],
  views: [{ instrumentName: 'web.size', aggregation: { type: AggregationType.EXPONENTIAL_HISTOGRAM } }],
});
const meter = provider.getMeter('web.lib');
const hits = meter.createCounter('web.hits', { unit: '{hit}', description: 'Hits so far.', valueType: 0 });
const sessions = meter.createUpDownCounter('web.sessions', { valueType: 0 });
const duration = meter.createHistogram('web.duration', { unit: 'ms' });
const size = meter.createHistogram('web.size', { unit: 'By' });
meter.createObservableGauge('web.load').addCallback((result) => result.observe(0.25, { cpu: 1 }));

(async () => {
  for (let round = 0; round < 2; round += 1) {
    hits.add(4, { page: '/a b' });
    sessions.add(2);
    sessions.add(-1);
    duration.record(12);
    size.record(4096);
    await provider.forceFlush();
  }
  await provider.shutdown();
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
