package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var nodeNames = []string{"node-a", "node-b"}

func (w *Workload) applyNodes(ctx context.Context) error {
	for i, name := range nodeNames {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname:           name,
				corev1.LabelOSStable:           "linux",
				corev1.LabelArchStable:         "amd64",
				corev1.LabelTopologyZone:       fmt.Sprintf("zone-%d", i+1),
				corev1.LabelInstanceTypeStable: "small",
			}},
			Status: corev1.NodeStatus{
				Capacity: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("4"),
					corev1.ResourceMemory: resource.MustParse("8Gi"),
					corev1.ResourcePods:   resource.MustParse("110"),
				},
				Conditions: []corev1.NodeCondition{{
					Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
					LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
				}},
				NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "amd64"},
			},
		}
		if _, err := w.clients.CoreV1().Nodes().Create(ctx, node, create(byKubelet)); err != nil {
			return fmt.Errorf("cannot create node %s: %w", name, err)
		}
	}
	return nil
}

// changeNode cordons a node, and uncordons it the next time.
func (w *Workload) changeNode(ctx context.Context) error {
	name := nodeNames[len(nodeNames)-1]
	cordon := w.round%2 == 0
	change := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordon)
	if _, err := w.clients.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, change, patch(byKubectl)); err != nil {
		return fmt.Errorf("cannot cordon node %s: %w", name, err)
	}
	if cordon {
		w.Log("cordoned node %s", name)
	} else {
		w.Log("uncordoned node %s", name)
	}
	return nil
}
