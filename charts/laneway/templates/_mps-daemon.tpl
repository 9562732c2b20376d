{{/* NVIDIA's MPS control daemon in a pod of its own: its end is the end of its clients' work, so it must outlive the agent. The template
     has nothing that changes with the configuration, and OnDelete leaves a running pod alone even when the image's tag changes.
     Privileged, as NVIDIA's own MPS pods are: the servers use the GPUs as their clients' users. hostPID: the clients' processes are known to
     it by the pids of the node. */}}
{{- define "laneway.mpsDaemonSet" -}}
{{- if and (eq (include "laneway.enforcementLevel" .) "MPS") (eq .Values.gpu.source "nvml") }}
{{- $selector := include "laneway.selector" (dict "root" . "component" "mps-daemon") -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "laneway.mpsName" . | quote }}
  namespace: {{ include "laneway.nodeNamespace" . | quote }}
  labels:
    {{- include "laneway.labels" . | nindent 4 }}
    app.kubernetes.io/component: mps-daemon
spec:
  selector:
    matchLabels:
      {{- $selector | nindent 6 }}
  # Its clients' work ends with the daemon, so an upgrade replaces no pod: who deletes one gets the new one.
  updateStrategy: {type: OnDelete}
  template:
    metadata:
      labels:   # none that an upgrade or a value changes
        {{- $selector | nindent 8 }}
        app.kubernetes.io/part-of: laneway
    spec:
      serviceAccountName: {{ include "laneway.nodeName" . | quote }}   # has OpenShift's SCC `privileged`
      automountServiceAccountToken: false
      hostPID: true
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.node.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with .Values.node.runtimeClassName }}
      runtimeClassName: {{ . | quote }}
      {{- end }}
      containers:
        - name: mps-daemon
          image: {{ include "laneway.image" (dict "root" $ "image" .Values.node.agent.image) | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args: [mps-daemon]
          env:
            {{- include "laneway.driverEnvironment" . | nindent 12 }}
          resources:
            {{- toYaml (.Values.node.mps | default dict).resources | nindent 12 }}
          securityContext:
            runAsUser: 0
            privileged: true
            readOnlyRootFilesystem: true
          volumeMounts:
            - {name: tmp, mountPath: /tmp}
            - {name: run, mountPath: /run/laneway}
            {{- if include "laneway.driverRoot" . }}
            - {name: driver, mountPath: /usr/local/nvidia, readOnly: true, mountPropagation: HostToContainer}   # installers mount into it
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {sizeLimit: 16Mi}
        - name: run
          hostPath: {path: /run/laneway, type: DirectoryOrCreate}
        {{- with include "laneway.driverRoot" . }}
        - name: driver
          hostPath: {path: {{ . | quote }}, type: Directory}
        {{- end }}
      {{- include "laneway.nodePlacement" . | nindent 6 }}
{{- end }}
{{- end -}}
