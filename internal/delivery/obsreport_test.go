package delivery

import (
	"context"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
	"go.opentelemetry.io/collector/receiver/receivertest"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

func TestObsReportCountsBeforeTheConsumerOwnsTheLogs(t *testing.T) {
	tel := componenttest.NewTelemetry()
	defer func() { _ = tel.Shutdown(context.Background()) }()
	settings := receivertest.NewNopSettings(component.MustNewType("test"))
	settings.TelemetrySettings = tel.NewTelemetrySettings()
	report, err := receiverhelper.NewObsReport(receiverhelper.ObsReportSettings{
		ReceiverID: settings.ID, Transport: "http", ReceiverCreateSettings: settings,
	})
	if err != nil {
		t.Fatal(err)
	}

	tries := 0
	next := WithObsReport(&sink{consume: func(context.Context, []int) error {
		if tries++; tries == 1 {
			return errBusy
		}
		return nil
	}}, report, "test")
	if !next.Capabilities().MutatesData {
		t.Error("the consumer's capabilities are hidden")
	}
	for range 2 {
		_ = next.ConsumeLogs(context.Background(), build(items(0, 5, 1)))
	}

	for _, name := range []string{"otelcol_receiver_accepted_log_records", "otelcol_receiver_refused_log_records"} {
		metric, err := tel.GetMetric(name)
		if err != nil {
			t.Fatal(err)
		}
		if points := metric.Data.(metricdata.Sum[int64]).DataPoints; len(points) != 1 || points[0].Value != 5 {
			t.Errorf("%s: %v", name, points)
		}
	}
}
