//! What is scraped goes out as it was.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};
use support::{PrivatePmcd, eventually, temp_dir};

use crate::otlp_out::{Receiver, pair};
use crate::seat::{JUMPSEAT, Seat, Transport};
use crate::targets::Targets;

#[test]
fn exemplars_go_from_the_target_through_an_archive_to_a_receiver_as_they_were() {
    let targets = Targets::start();
    targets.write(
        "shop.om",
        "# TYPE a counter\na_total 3 # {trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",span_id=\"00f067aa0ba902b7\",\
         user=\"ann \\\"b\\\" c\\\\d=\\n100%\"} 1 1605281325.123456789\n# EOF\n",
    );
    let dir = temp_dir();
    let seat = Seat::in_dir(dir.path(), &targets.table("shop", &["shop.om"], ""));
    let pmcd = PrivatePmcd::with([seat.agent(Transport::Pipe)]).start();
    eventually(&format!("the exemplar: {}", seat.log()), || {
        let shown = pmcd.run("pminfo", ["-f", "jumpseat.otel_exemplar.a_total"]);
        shown.stdout.contains("value=1.0").then_some(())
    });
    let archive = pmcd.dir().join("archive").display().to_string();
    let roots = ["jumpseat.otel", "jumpseat.otel_exemplar"];
    let host = pmcd.inet();
    let record = ["record", "-q", "-s", "1", "-h", &host, &archive];
    pmcd.run(JUMPSEAT, record.into_iter().chain(roots)).ok();
    let receiver = Receiver::start(dir.path(), "http", &[]);
    let url = receiver.url();
    let export = ["export", "--otlp", &url, "-a", &archive];
    pmcd.run(JUMPSEAT, export.into_iter().chain(roots)).ok();
    let received: Vec<ExportMetricsServiceRequest> = receiver.messages("metrics", &["ok"]);
    let groups = received.iter().flat_map(|request| &request.resource_metrics);
    let metrics = groups.flat_map(|group| &group.scope_metrics).flat_map(|scope| &scope.metrics);
    let sums = metrics.filter_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) if metric.name == "a_total" => Some(sum),
        _ => None,
    });
    let found: Vec<&Exemplar> =
        sums.flat_map(|sum| &sum.data_points).flat_map(|point| &point.exemplars).collect();
    let expected = Exemplar {
        time_unix_nano: 1_605_281_325_123_456_789,
        value: Some(exemplar::Value::AsDouble(1.0)),
        trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes().to_vec(),
        span_id: 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes().to_vec(),
        filtered_attributes: vec![pair("user", Any::StringValue("ann \"b\" c\\d=\n100%".to_owned()))],
    };
    assert_eq!(found, [&expected]);
}
