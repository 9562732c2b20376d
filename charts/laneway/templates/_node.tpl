{{- define "laneway.nodeEnvironment" -}}
- name: NODE_NAME
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end -}}
{{- define "laneway.nodeSecurityContext" -}}
runAsUser: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
{{- define "laneway.driverEnvironment" -}}
{{- if include "laneway.driverRoot" . }}
- {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
{{- else if eq .Values.gpu.source "nvml" }}
# NVIDIA's container runtime mounts NVML into a container with these variables; `compute` adds MPS' programs, and the CUDA driver on which
# the agent tests the memory interposer.
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: {{ if has (include "laneway.enforcementLevel" .) (list "Interposer" "MPS") }}"compute,utility"{{ else }}utility{{ end }}}
{{- end }}
{{- end -}}
{{- define "laneway.enforcementLevel" -}}{{ dig "enforcement" "level" "Interposer" .Values.node.config }}{{- end -}}
{{/* Where the memory interposer starts the client, images keep their own PYTHONPATH, and nothing asks the container runtime. With MPS the
     library may be missing: it is not tested on GPUs in the compute mode that MPS needs. */}}
{{- define "laneway.runtimeSocket" -}}
{{- if ne (include "laneway.enforcementLevel" .) "Interposer" }}{{ .Values.node.runtimeSocket | default "" }}{{ end -}}
{{- end -}}
{{- define "laneway.driverRoot" -}}{{ dig "driverRoot" "" .Values.node.config }}{{- end -}}
{{/* KILL: the watchdog ends processes of other users. With a driver root there is no NVIDIA runtime, and only a privileged container sees the node's devices. */}}
{{- define "laneway.agentSecurityContext" -}}
{{- $level := include "laneway.enforcementLevel" . -}}
{{- if include "laneway.driverRoot" . -}}
runAsUser: 0
privileged: true
readOnlyRootFilesystem: true
{{- else -}}
{{- $watchdog := has $level (list "Watchdog" "Interposer" "MPS") | ternary (list "KILL") list -}}
{{- $capabilities := dict "drop" (list "ALL") -}}
{{- with concat $watchdog (.Values.node.agent.capabilities | default list) -}}{{- $_ := set $capabilities "add" . -}}{{- end -}}
{{ mustMerge (dict "capabilities" $capabilities) (include "laneway.nodeSecurityContext" . | fromYaml) | toYaml }}
{{- end -}}
{{- end -}}

{{- define "laneway.nodeConfigMap" -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "laneway.nodeGroupName" . | quote }}
  namespace: {{ include "laneway.nodeNamespace" . | quote }}
  labels:
    {{- include "laneway.labels" . | nindent 4 }}
data:
  node.yaml: |
    {{- include "laneway.nodeConfig" . | nindent 4 }}
  {{- if eq .Values.gpu.source "simulated" }}
  gpus.yaml: |
    {{- toYaml .Values.gpu.simulated | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The node pods of a group. Root, because root owns the kubelet's and Laneway's folders on the node, with few capabilities. The agent
     sees the node's processes (hostPID): a session's credentials name a process, and the process' cgroup names the pod. */}}
{{- define "laneway.nodeDaemonSet" -}}
{{- $selector := include "laneway.selector" (dict "root" . "component" "node") -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "laneway.nodeGroupName" . | quote }}
  namespace: {{ include "laneway.nodeNamespace" . | quote }}
  labels:
    {{- include "laneway.labels" . | nindent 4 }}
    app.kubernetes.io/component: node
spec:
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  updateStrategy:
    {{- toYaml .Values.node.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- mustMerge (fromYaml $selector) (include "laneway.labels" . | fromYaml) (.Values.node.podLabels | default dict) | toYaml | nindent 8 }}
      annotations:
        {{- $hash := printf "%s %s" (include "laneway.nodeConfig" .) (toYaml .Values.gpu) | sha256sum | trunc 16 }}
        {{- mustMerge (dict "laneway.dev/config-hash" $hash) (.Values.node.podAnnotations | default dict) | toYaml | nindent 8 }}
    spec:
      serviceAccountName: {{ include "laneway.nodeName" . | quote }}
      hostPID: true
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.node.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.node.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with .Values.node.runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      initContainers:
        - name: client
          image: {{ include "laneway.image" (dict "root" $ "image" .Values.node.client.image) | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: [/var/lib/laneway/client]
          resources:
            {{- toYaml .Values.node.client.resources | nindent 12 }}
          securityContext:
            {{- include "laneway.securityContext" (list (include "laneway.nodeSecurityContext" . | fromYaml) .Values.node.client.securityContext) | nindent 12 }}
          volumeMounts:
            - {name: client, mountPath: /var/lib/laneway/client}
      containers:
        - name: device-plugin
          image: {{ include "laneway.image" (dict "root" $ "image" .Values.node.devicePlugin.image) | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - --config=/etc/laneway/node.yaml
            - --runtime-socket={{ include "laneway.runtimeSocket" . }}
            - --client-folder={{ .Values.node.clientFolder }}
            {{- if .Values.metrics.secure.enabled }}
            - --http-address=127.0.0.1
            - --http-port={{ include "laneway.loopbackPort" (dict "port" 9465) }}
            {{- end }}
            {{- with .Values.node.devicePlugin.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            {{- include "laneway.nodeEnvironment" . | nindent 12 }}
            {{- with .Values.node.devicePlugin.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- if not .Values.metrics.secure.enabled }}
          ports:
            - {name: plugin-metrics, containerPort: 9465}
          {{- end }}
          livenessProbe:
            {{- include "laneway.probe" (dict "root" . "path" "/healthz" "port" 9465) | nindent 12 }}
            initialDelaySeconds: 10
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:   # the kubelet follows its devices, and the Node offers the shares
            {{- include "laneway.probe" (dict "root" . "path" "/readyz" "port" 9465) | nindent 12 }}
            periodSeconds: {{ ternary 10 3 .Values.metrics.secure.enabled }}
            timeoutSeconds: 5
          resources:
            {{- toYaml .Values.node.devicePlugin.resources | nindent 12 }}
          securityContext:
            {{- include "laneway.securityContext" (list (include "laneway.nodeSecurityContext" . | fromYaml) .Values.node.devicePlugin.securityContext) | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/laneway, readOnly: true}
            - {name: tmp, mountPath: /tmp}
            - {name: run, mountPath: /run/laneway}
            - {name: device-plugins, mountPath: /var/lib/kubelet/device-plugins, mountPropagation: HostToContainer}
            - {name: pod-resources, mountPath: /var/lib/kubelet/pod-resources, readOnly: true, mountPropagation: HostToContainer}
            {{- with include "laneway.runtimeSocket" . }}
            # The folder, because a restarted runtime creates a new socket. HostToContainer: an unmount on the host takes effect here.
            - {name: runtime, mountPath: {{ dir . | quote }}, readOnly: true, mountPropagation: HostToContainer}
            {{- end }}
            {{- with .Values.node.devicePlugin.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        - name: node-agent
          image: {{ include "laneway.image" (dict "root" $ "image" .Values.node.agent.image) | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - --config=/etc/laneway/node.yaml
            - --namespace={{ .Release.Namespace }}   # of the node's Lease, which the operator reads
            {{- if .Values.metrics.secure.enabled }}
            - --address=127.0.0.1
            - --port={{ include "laneway.loopbackPort" (dict "port" 9464) }}
            {{- end }}
            {{- with .Values.node.agent.extraArgs }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          env:
            {{- include "laneway.nodeEnvironment" . | nindent 12 }}
            {{- include "laneway.driverEnvironment" . | nindent 12 }}
            {{- with .Values.node.agent.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- if not .Values.metrics.secure.enabled }}
          ports:
            - {name: agent-metrics, containerPort: 9464}
          {{- end }}
          livenessProbe:
            {{- include "laneway.probe" (dict "root" . "path" "/healthz" "port" 9464) | nindent 12 }}
            initialDelaySeconds: 10
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            {{- include "laneway.probe" (dict "root" . "path" "/healthz" "port" 9464) | nindent 12 }}
            periodSeconds: {{ ternary 10 3 .Values.metrics.secure.enabled }}
            timeoutSeconds: 5
          resources:
            {{- toYaml .Values.node.agent.resources | nindent 12 }}
          securityContext:
            {{- include "laneway.securityContext" (list (include "laneway.agentSecurityContext" . | fromYaml) .Values.node.agent.securityContext) | nindent 12 }}
          volumeMounts:
            - {name: config, mountPath: /etc/laneway, readOnly: true}
            - {name: tmp, mountPath: /tmp}
            - {name: run, mountPath: /run/laneway}
            - {name: agent, mountPath: /var/lib/laneway/agent}
            # How the GPUs reach containers depends on these. The agent may write one CDI spec of its own into the first.
            - {name: cdi, mountPath: /var/run/cdi}
            {{- if eq .Values.gpu.source "nvml" }}
            {{- if .Values.node.cdiFolder }}
            - {name: cdi-static, mountPath: /etc/cdi, readOnly: true}
            {{- end }}
            {{- if .Values.node.nvidiaRuntimeFolder }}
            - {name: nvidia-runtime, mountPath: /etc/nvidia-container-runtime, readOnly: true}
            {{- end }}
            {{- end }}
            {{- if include "laneway.driverRoot" . }}
            - {name: driver, mountPath: /usr/local/nvidia, readOnly: true, mountPropagation: HostToContainer}   # installers mount into it
            {{- end }}
            - {name: client, mountPath: /var/lib/laneway/client, readOnly: true}   # whether the memory interposer is there
            {{- with .Values.node.agent.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- if .Values.metrics.secure.enabled }}
        {{- include "laneway.metricsProxy" (dict "root" . "name" "plugin-metrics" "port" 9465) | nindent 8 }}
        {{- include "laneway.metricsProxy" (dict "root" . "name" "agent-metrics" "port" 9464) | nindent 8 }}
        {{- end }}
      volumes:
        - name: config
          configMap: {name: {{ include "laneway.nodeGroupName" . | quote }}}
        - name: tmp
          emptyDir: {sizeLimit: 16Mi}
        - name: run
          hostPath: {path: /run/laneway, type: DirectoryOrCreate}
        - name: agent
          hostPath: {path: /var/lib/laneway/agent, type: DirectoryOrCreate}
        - name: cdi
          hostPath: {path: /var/run/cdi, type: DirectoryOrCreate}
        {{- if eq .Values.gpu.source "nvml" }}
        {{- with .Values.node.cdiFolder }}
        - name: cdi-static
          hostPath: {path: {{ . | quote }}, type: DirectoryOrCreate}
        {{- end }}
        {{- with .Values.node.nvidiaRuntimeFolder }}
        - name: nvidia-runtime
          hostPath: {path: {{ . | quote }}, type: DirectoryOrCreate}
        {{- end }}
        {{- end }}
        {{- with include "laneway.driverRoot" . }}
        - name: driver
          hostPath: {path: {{ . | quote }}, type: Directory}
        {{- end }}
        - name: client
          hostPath: {path: {{ .Values.node.clientFolder | quote }}, type: DirectoryOrCreate}
        - name: device-plugins
          hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}
        - name: pod-resources
          hostPath: {path: {{ printf "%s/pod-resources" (trimSuffix "/" .Values.node.kubeletFolder) | quote }}, type: Directory}
        {{- with include "laneway.runtimeSocket" . }}
        - name: runtime
          hostPath: {path: {{ dir . | quote }}, type: DirectoryOrCreate}   # a node may have another runtime with its socket elsewhere
        {{- end }}
        {{- with include "laneway.metricsProxyVolume" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with .Values.node.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- include "laneway.nodePlacement" . | nindent 6 }}
{{- end -}}
