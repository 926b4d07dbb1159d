package record

import (
	"fmt"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/scope"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/watchlist"
)

// Attributes that the semantic conventions do not define. k8s.resource.name and most of k8s.object.* have the names
// that the Collector's other Kubernetes receivers use.
const (
	keyChangeType     = "k8s.change.type"
	keyChangeOrigin   = "k8s.change.origin"
	keyChangeInferred = "k8s.change.inferred"
	keyChangeID       = "k8s.change.id"

	keyChangeSections    = "k8s.change.sections"
	keyChangeManager     = "k8s.change.manager"
	keyChangeOperation   = "k8s.change.operation"
	keyChangeSubresource = "k8s.change.subresource"
	keyChangeDiff        = "k8s.change.diff"
	keyChangeDiffMore    = "k8s.change.diff_more"

	keyResourceName          = "k8s.resource.name"
	keyResourceGroup         = "k8s.resource.group"
	keyResourceNamespaces    = "k8s.resource.namespaces"
	keyResourceLabelSelector = "k8s.resource.label_selector"
	keyResourceFieldSelector = "k8s.resource.field_selector"

	keyShardIndex = "k8s.watchlist.shard.index"
	keyShardTotal = "k8s.watchlist.shard.total"
	keyShardBy    = "k8s.watchlist.shard.by"

	keyObjectKind            = "k8s.object.kind"
	keyObjectName            = "k8s.object.name"
	keyObjectUID             = "k8s.object.uid"
	keyObjectAPIVersion      = "k8s.object.api_version"
	keyObjectResourceVersion = "k8s.object.resource_version"
	keyObjectGeneration      = "k8s.object.generation"

	keyKcpCluster = "k8s.kcp.cluster"

	keyGapReason              = "k8s.gap.reason"
	keyGapFromResourceVersion = "k8s.gap.from_resource_version"
	keyGapToResourceVersion   = "k8s.gap.to_resource_version"
	keyGapFromTime            = "k8s.gap.from_time"
	keyGapToTime              = "k8s.gap.to_time"
	keyGapAdded               = "k8s.gap.added"
	keyGapModified            = "k8s.gap.modified"
	keyGapDeleted             = "k8s.gap.deleted"
	keyGapDropped             = "k8s.gap.dropped"

	keySnapshotEpoch           = "k8s.snapshot.epoch"
	keySnapshotResourceVersion = "k8s.snapshot.resource_version"
	keySnapshotObjects         = "k8s.snapshot.objects"
	keySnapshotIncomplete      = "k8s.snapshot.incomplete"

	keyBodyError = "k8s.body.error"

	keyObjectManifest  = "k8s.object.manifest"
	keyRecordTruncated = "k8s.record.truncated"

	keyRedactionFailed = "k8s.redaction.failed"
	keyRedactionKey    = "k8s.redaction.key" // of the resource
)

// attributesAtMost is the maximum number of attributes of an object's record, except for the logical cluster and a
// failed redaction, which few records have.
const attributesAtMost = 24

func putChange(m pcommon.Map, c *watchlist.Change) {
	m.PutStr(keyChangeType, typeName(c.Type))
	// Always present, because a missing attribute would mean "unknown" in backends whose comparisons skip missing
	// values: "not inferred" has to be as easy to query as "inferred".
	m.PutBool(keyChangeInferred, c.Inferred)
	if c.Snapshot != nil {
		putNonEmpty(m, keySnapshotEpoch, c.Snapshot.Epoch)
	}
	if !c.Sections.IsEmpty() {
		names := c.Sections.Names()
		sections := m.PutEmptySlice(keyChangeSections)
		sections.EnsureCapacity(len(names))
		for _, name := range names {
			sections.AppendEmpty().SetStr(name)
		}
	}
	putNonEmpty(m, keyChangeManager, c.Manager.Name)
	putNonEmpty(m, keyChangeOperation, c.Manager.Operation)
	putNonEmpty(m, keyChangeSubresource, c.Manager.Subresource)
	putDiff(m, c.Diff)
}

func (b *Builder) putObject(m pcommon.Map, c *watchlist.Change) {
	o := &c.Object
	putNonEmpty(m, keyObjectKind, o.Kind)
	putNonEmpty(m, keyObjectAPIVersion, o.APIVersion)
	putNonEmpty(m, keyObjectName, o.Name)
	putNonEmpty(m, keyObjectUID, o.UID)
	putNonEmpty(m, keyObjectResourceVersion, o.ResourceVersion)
	if o.Generation != 0 {
		m.PutInt(keyObjectGeneration, o.Generation)
	}
	putNonEmpty(m, string(semconv.K8SNamespaceNameKey), o.Namespace)
	putNonEmpty(m, keyKcpCluster, o.Cluster)
	putOwner(m, &o.Owner)
	if o.Pod != nil {
		b.putPod(m, o)
	}
	if conventional, ok := kinds[c.Scope.GroupResource]; ok {
		conventional.put(m, o.Name, o.UID)
	}
}

// putCut names what was cut out of the object.
func putCut(m pcommon.Map, paths []string) {
	cut := m.PutEmptySlice(keyRecordTruncated)
	cut.EnsureCapacity(len(paths))
	for _, path := range paths {
		cut.AppendEmpty().SetStr(path)
	}
}

// putScope adds the scope of the reader, for a record about a stream.
func putScope(m pcommon.Map, s *scope.Scope) {
	putNonEmpty(m, string(semconv.K8SNamespaceNameKey), s.Namespace)
	putNonEmpty(m, keyResourceNamespaces, s.Among)
	putNonEmpty(m, keyResourceLabelSelector, s.LabelSelector)
	putNonEmpty(m, keyResourceFieldSelector, s.FieldSelector)
	if s.Shard.Divided() {
		m.PutInt(keyShardIndex, int64(s.Shard.Index))
		m.PutInt(keyShardTotal, int64(s.Shard.Total))
		m.PutStr(keyShardBy, s.Shard.By.String())
	}
}

func putGap(m pcommon.Map, g *watchlist.GapInfo, isOfEvents bool) {
	putNonEmpty(m, keyGapReason, g.Reason)
	putNonEmpty(m, keyGapFromResourceVersion, g.FromRV)
	putNonEmpty(m, keyGapToResourceVersion, g.ToRV)
	putTime(m, keyGapFromTime, g.From)
	putTime(m, keyGapToTime, g.To)
	m.PutInt(keyGapAdded, int64(g.Added))
	m.PutInt(keyGapModified, int64(g.Modified))
	m.PutInt(keyGapDeleted, int64(g.Deleted))
	if g.Dropped > 0 {
		m.PutInt(keyGapDropped, int64(g.Dropped))
	}
	if isOfEvents {
		putNonEmpty(m, keyEventName, g.Object.Name)
	} else {
		putNonEmpty(m, keyObjectName, g.Object.Name)
	}
	putNonEmpty(m, string(semconv.K8SNamespaceNameKey), g.Object.Namespace)
}

func putTime(m pcommon.Map, key string, at time.Time) {
	if !at.IsZero() {
		m.PutStr(key, at.UTC().Format(time.RFC3339Nano))
	}
}

// GapSentence describes a gap in one sentence.
func GapSentence(c *watchlist.Change) string {
	known := func(rv string) string {
		if rv == "" {
			return "(unknown)"
		}
		return rv
	}
	if c.Gap.Dropped > 0 {
		return fmt.Sprintf("the next consumer refused %d records of %s between resource versions %s and %s permanently",
			c.Gap.Dropped, c.Scope.GroupResource, known(c.Gap.FromRV), known(c.Gap.ToRV))
	}
	return fmt.Sprintf("the watch of %s did not see every change between resource versions %s and %s (%s); "+
		"net differences: %d added, %d modified, %d deleted",
		c.Scope.GroupResource, known(c.Gap.FromRV), known(c.Gap.ToRV), c.Gap.Reason, c.Gap.Added, c.Gap.Modified, c.Gap.Deleted)
}

// putFrame adds which set a k8s.snapshot.begin or end record frames, and to the end record the content of a complete
// set.
func putFrame(m pcommon.Map, c *watchlist.Change) {
	putNonEmpty(m, keySnapshotEpoch, c.Snapshot.Epoch)
	if c.Type == watchlist.SnapshotEnd {
		putNonEmpty(m, keySnapshotResourceVersion, c.Snapshot.ResourceVersion)
		m.PutInt(keySnapshotObjects, int64(c.Snapshot.Objects))
		if c.Snapshot.Incomplete {
			m.PutBool(keySnapshotIncomplete, true)
		}
	}
}
