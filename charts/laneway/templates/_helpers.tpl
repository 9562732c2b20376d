{{- define "laneway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Base of all names. At most 50 characters, so that suffixes fit. */}}
{{- define "laneway.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "laneway.operatorName" -}}{{ include "laneway.fullname" . }}-operator{{- end -}}
{{- define "laneway.nodeName" -}}{{ include "laneway.fullname" . }}-node{{- end -}}
{{/* The name of what each node group has of its own. Without nodeGroups there is one group, without a name. */}}
{{- define "laneway.nodeGroupName" -}}{{ include "laneway.nodeName" . }}{{ with .Group }}-{{ . }}{{ end }}{{- end -}}
{{- define "laneway.mpsName" -}}{{ include "laneway.fullname" . }}-mps-daemon{{ with .Group }}-{{ . }}{{ end }}{{- end -}}
{{- define "laneway.nodeNamespace" -}}{{ default .Release.Namespace .Values.node.namespace }}{{- end -}}

{{/* The namespaces of Laneway's pods. */}}
{{- define "laneway.namespaces" -}}
{{- toYaml (list .Release.Namespace (include "laneway.nodeNamespace" .) | uniq) -}}
{{- end -}}

{{- define "laneway.labels" -}}{{ include "laneway.labelsWith" (list . dict) }}{{- end -}}

{{/* (list $ labels): the labels of an object that has more than the common ones. The chart's own come first, then these. */}}
{{- define "laneway.labelsWith" -}}
{{- $root := first . -}}
{{- $own := include "laneway.ownLabels" $root | fromYaml -}}
{{- mustMerge $own (last .) (omit ($root.Values.commonLabels | default dict) "app.kubernetes.io/component") | toYaml -}}
{{- end -}}

{{- define "laneway.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "laneway.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: laneway
{{- end -}}

{{/* Labels that select a component's pods: (dict "root" $ "component" "operator"), of a group if root has one. They never change, because a Deployment's selector is immutable. */}}
{{- define "laneway.selector" -}}
app.kubernetes.io/name: {{ include "laneway.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- with .root.Group }}
laneway.dev/node-group: {{ . | quote }}
{{- end }}
{{- end -}}

{{/*
(dict "root" $ "image" .Values.operator.image). As everywhere, a name whose first part has a dot or a colon begins with its registry.
A tag that is set names another image than the digest.
*/}}
{{- define "laneway.image" -}}
{{- $tag := coalesce .image.tag .root.Values.image.tag -}}
{{- $named := regexMatch "^(localhost|[^/]*[.:][^/]*)/" .image.repository -}}
{{- with ternary "" .root.Values.image.registry $named }}{{ trimSuffix "/" . }}/{{ end }}{{ .image.repository }}:{{ $tag | default .root.Chart.AppVersion }}
{{- if and .image.digest (not $tag) }}@{{ .image.digest }}{{ end }}
{{- end -}}

{{/* sharing: YAML takes an unquoted off for a boolean. */}}
{{- define "laneway.sharing" -}}{{ ternary "lanes" "off" (eq (toString .Values.sharing) "lanes") }}{{- end -}}

{{/* node.yaml: gpu.source and sharing are values that the files and the templates read. */}}
{{- define "laneway.nodeConfig" -}}
{{- toYaml (merge (dict "gpuSource" .Values.gpu.source "sharing" (include "laneway.sharing" .)) .Values.node.config) -}}
{{- end -}}

{{/* operator.yaml: the planner uses the agents' lanes, so that both count memory alike. Its namespaces are those of its rights. */}}
{{- define "laneway.operatorConfig" -}}
{{- $config := deepCopy .Values.operator.config -}}
{{- $_ := set $config "sharing" (include "laneway.sharing" .) -}}
{{- with .Values.node.config.lanes -}}{{- $_ := set $config "lanes" . -}}{{- end -}}
{{- with .Values.operator.namespaces -}}{{- $_ := set $config "namespaces" . -}}{{- end -}}
{{- if .Values.metrics.secure.enabled -}}
{{- $_ := set $config "metricsAddress" "127.0.0.1" -}}
{{- $_ := set $config "metricsPort" (include "laneway.loopbackPort" (dict "port" 9090) | int) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The operator's rights to jobs and what belongs to them: in all namespaces, or in each of operator.namespaces. */}}
{{- define "laneway.operatorJobRules" -}}
# Reads: the input of its decisions.
- apiGroups: [laneway.dev]
  resources: [trainingjobs]
  verbs: [get, list, watch]
- apiGroups: [laneway.dev]
  resources: [trainingprofiles]
  verbs: [list, watch, create, patch, delete]   # what the jobs of a template have shown: the operator's own objects
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [get]
# Writes: a job's status and never its spec. It creates and deletes a job's workers, and changes nothing in them except a lost owner
# reference and CPUs. RBAC cannot tell them from other pods: the operator creates them with the job as owner, and changes and deletes by uid.
- apiGroups: [laneway.dev]
  resources: [trainingjobs/status]
  verbs: [patch]
- apiGroups: [laneway.dev]
  resources: [trainingjobs]
  verbs: [delete]   # when ttlSecondsAfterFinished ends
- apiGroups: [laneway.dev]
  resources: [trainingjobs/finalizers]
  verbs: [update]   # owner references with blockOwnerDeletion, where OwnerReferencesPermissionEnforcement is on
- apiGroups: [""]
  resources: [pods]
  verbs: [create, delete, patch]   # patch: restores a worker's lost owner reference
- apiGroups: [""]
  resources: [pods/resize]
  verbs: [patch]   # changes the CPUs of workers that run; without an allocation policy: returns them to what jobs request
- apiGroups: [""]
  resources: [services]
  verbs: [create]   # one headless Service for the gangs of a namespace
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* (list defaults changes): a security context with what the values change. Null removes a field. */}}
{{- define "laneway.securityContext" -}}
{{- $context := mustMergeOverwrite (deepCopy (first .)) (last . | default dict) -}}
{{- range $field, $value := $context -}}
{{- if kindIs "invalid" $value -}}{{- $context = omit $context $field -}}{{- end -}}
{{- end -}}
{{- toYaml $context -}}
{{- end -}}

{{/*
(list $ "board" "securityContext"): this value, and its default where there is none. `helm upgrade --reuse-values` brings the values of an
older chart, and null removes one.
*/}}
{{- define "laneway.valueOrDefault" -}}
{{- $value := (first .).Values -}}
{{- $default := include "laneway.defaults" (first .) | fromYaml -}}
{{- range rest . -}}
{{- $value = index ($value | default dict) . -}}
{{- $default = index $default . -}}
{{- end -}}
{{- kindIs "invalid" $value | ternary $default $value | toYaml -}}
{{- end -}}

{{- define "laneway.defaults" -}}{{ .Files.Get "files/defaults.yaml" }}{{- end -}}

{{/* Where the pods of a Deployment run: the values of its component. */}}
{{- define "laneway.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Which nodes have a node pod, and a pod of the MPS control daemon. */}}
{{- define "laneway.nodePlacement" -}}
{{- with .Values.node.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.node.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .Values.node.affinity }}
affinity:
  {{- toYaml .Values.node.affinity | nindent 2 }}
{{- else if and (eq .Values.gpu.source "nvml") (not .Values.node.nodeSelector) }}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:   # any of them: GPU feature discovery, node feature discovery, GKE, EKS, AKS
        - matchExpressions: [{key: nvidia.com/gpu.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: feature.node.kubernetes.io/pci-10de.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: feature.node.kubernetes.io/pci-0302_10de.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: feature.node.kubernetes.io/pci-0300_10de.present, operator: In, values: ["true"]}]
        - matchExpressions: [{key: cloud.google.com/gke-accelerator, operator: Exists}]
        - matchExpressions: [{key: eks.amazonaws.com/instance-gpu-manufacturer, operator: In, values: [nvidia]}]
        - matchExpressions: [{key: k8s.amazonaws.com/accelerator, operator: Exists}]
        - matchExpressions: [{key: kubernetes.azure.com/accelerator, operator: In, values: [nvidia]}]
{{- end }}
{{- end -}}

{{/* Checks that a JSON schema cannot express. */}}
{{- define "laneway.validate" -}}
{{- range $name, $group := .Values.nodeGroups -}}
{{- if not (or $group.nodeSelector $group.affinity) -}}
{{- fail (printf "nodeGroups.%s: it has neither nodeSelector nor affinity: write which nodes it has, such as nodeSelector: {node-pool: %s}. No node may be in two groups" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.podMonitor.enabled .Values.metrics.serviceMonitor.enabled -}}
{{- fail "metrics.podMonitor and metrics.serviceMonitor are both enabled: choose one, as each scrapes all of Laneway's pods" -}}
{{- end -}}
{{- $alerts := list -}}
{{- range (.Files.Get "files/rules/alerts.yaml" | fromYaml).groups -}}
{{- range .rules -}}{{- $alerts = append $alerts .alert -}}{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.metrics.prometheusRule.disabled -}}
{{- if not (has $name $alerts) -}}
{{- fail (printf "metrics.prometheusRule.disabled: there is no alert %s: write one of %s" $name (join ", " $alerts)) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.gpu.source "simulated") (empty .Values.gpu.simulated.gpus) -}}
{{- fail "gpu.source is simulated, but gpu.simulated.gpus is empty: write the GPUs of a node, such as gpu.simulated.gpus=[{model: H100, memory: 80Gi, count: 4}]" -}}
{{- end -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.podMonitor.enabled -}}
{{- fail "metrics.secure and metrics.podMonitor are both enabled: enable metrics.serviceMonitor, which sends Prometheus' token" -}}
{{- end -}}
{{- $count := 0 -}}
{{- range .Values.gpu.simulated.gpus -}}{{- $count = add $count (default 1 .count) -}}{{- end -}}
{{- range .Values.gpu.simulated.nvlinks -}}
{{- if or (eq (int (first .)) (int (last .))) (ge (int (first .)) (int $count)) (ge (int (last .)) (int $count)) -}}
{{- fail (printf "gpu.simulated.nvlinks: [%d, %d] must be two different indices from 0 to %d, as gpu.simulated.gpus has %d GPUs" (int (first .)) (int (last .)) (sub $count 1) $count) -}}
{{- end -}}
{{- end -}}
{{- with .Values.operator.config.scheduling -}}
{{- range .admission -}}
{{- if eq .policy "quota" -}}
{{- $quotas := dig "options" "quotaGpus" (dict) . -}}
{{- range $namespace, $limit := dig "options" "limitGpus" (dict) . -}}
{{- $quota := float64 (default 0 (get $quotas $namespace)) -}}
{{- if lt (float64 $limit) $quota -}}
{{- fail (printf "operator.config.scheduling.admission: limitGpus of %s is %v, less than its quotaGpus of %v: write a limit that holds the quota" $namespace $limit $quota) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.operator.config.lease -}}
{{- $retry := int (default 2 .retrySeconds) -}}
{{- $renew := int (default 10 .renewDeadlineSeconds) -}}
{{- $duration := int (default 15 .durationSeconds) -}}
{{- if not (and (lt $retry $renew) (lt $renew $duration)) -}}
{{- fail (printf "operator.config.lease: retrySeconds %d, renewDeadlineSeconds %d, durationSeconds %d: write them in rising order, such as 2, 10, 15" $retry $renew $duration) -}}
{{- end -}}
{{- end -}}
{{- end -}}
