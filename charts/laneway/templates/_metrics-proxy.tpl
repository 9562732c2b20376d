{{/* The port on the loopback of a container behind a proxy: (dict "port" 9464). */}}
{{- define "laneway.loopbackPort" -}}{{ add .port 10000 }}{{- end -}}

{{/* The action of a probe: (dict "root" $ "path" "/healthz" "port" 9464). */}}
{{- define "laneway.probe" -}}
httpGet: {path: {{ .path }}, port: {{ .port }}{{ if .root.Values.metrics.secure.enabled }}, scheme: HTTPS{{ end }}}
{{- end -}}

{{/* The container that lets through who may get /metrics: (dict "root" $ "name" "agent-metrics" "port" 9464). Other paths need rights of
     their own, and the kubelet's probes need none. */}}
{{- define "laneway.metricsProxy" -}}
{{- $secure := .root.Values.metrics.secure -}}
- name: {{ .name }}-proxy
  image: {{ $secure.image }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - --secure-listen-address=:{{ .port }}
    - --upstream=http://127.0.0.1:{{ include "laneway.loopbackPort" . }}/
    - --ignore-paths=/healthz,/readyz
    {{- if $secure.tlsSecret }}
    - --tls-cert-file=/etc/metrics-tls/tls.crt
    - --tls-private-key-file=/etc/metrics-tls/tls.key
    {{- end }}
  ports:
    - {name: {{ .name }}, containerPort: {{ .port }}}
  resources:
    {{- toYaml $secure.resources | nindent 4 }}
  securityContext:
    runAsNonRoot: true
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  {{- if $secure.tlsSecret }}
  volumeMounts:
    - {name: metrics-tls, mountPath: /etc/metrics-tls, readOnly: true}
  {{- end }}
{{- end -}}

{{- define "laneway.metricsProxyVolume" -}}
{{- if and .Values.metrics.secure.enabled .Values.metrics.secure.tlsSecret -}}
- name: metrics-tls
  secret: {secretName: {{ .Values.metrics.secure.tlsSecret }}}
{{- end -}}
{{- end -}}
