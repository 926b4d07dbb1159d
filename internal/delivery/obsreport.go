package delivery

import (
	"context"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver/receiverhelper"
)

// WithObsReport wraps next with the Collector's own receiver metrics and spans for every try. Records that are refused
// n times and then accepted count n times as refused and once as accepted.
func WithObsReport(next consumer.Logs, report *receiverhelper.ObsReport, format string) consumer.Logs {
	return &observed{Logs: next, report: report, format: format}
}

type observed struct {
	consumer.Logs
	report *receiverhelper.ObsReport
	format string
}

func (o *observed) ConsumeLogs(ctx context.Context, logs plog.Logs) error {
	records := logs.LogRecordCount() // before the consumer owns them
	ctx = o.report.StartLogsOp(ctx)
	err := o.Logs.ConsumeLogs(ctx, logs)
	o.report.EndLogsOp(ctx, o.format, records, err)
	return err
}
