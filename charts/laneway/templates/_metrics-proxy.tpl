{{/* The port on the loopback of a container behind a proxy: (dict "port" 9464). */}}
{{- define "laneway.loopbackPort" -}}{{ add .port 10000 }}{{- end -}}

{{/* The action of a probe: (dict "root" $ "path" "/healthz" "port" 9464). With a proxy before the port, the container asks itself: its life
     does not depend on the proxy's. It asks from an address of its own, so that answers to others do not delay it. It is a process, which
     costs more than a request: readiness probes are rarer then. */}}
{{- define "laneway.probe" -}}
{{- if .root.Values.metrics.secure.enabled -}}
{{- $connect := printf "c = socket.create_connection(('127.0.0.1', %s), 4, ('127.0.0.2', 0))" (include "laneway.loopbackPort" .) -}}
{{- $ask := printf `c.sendall(b'GET %s HTTP/1.0\r\n\r\n')` .path -}}
exec: {command: [python3, -ISc, {{ printf "import socket; %s; %s; raise SystemExit(b' 200 ' not in c.recv(99))" $connect $ask | toJson }}]}
{{- else -}}
httpGet: {path: {{ .path }}, port: {{ .port }}}
{{- end -}}
{{- end -}}

{{/* The container that lets through who may get a path: (dict "root" $ "name" "agent-metrics" "port" 9464). The port for its own probe shows
     nothing else. */}}
{{- define "laneway.metricsProxy" -}}
{{- $secure := .root.Values.metrics.secure -}}
{{- $probePort := add .port 20000 -}}
- name: {{ .name }}-proxy
  image: {{ include "laneway.image" (dict "root" .root "image" $secure.image) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  args:
    - --secure-listen-address=:{{ .port }}
    - --upstream=http://127.0.0.1:{{ include "laneway.loopbackPort" . }}/
    - --proxy-endpoints-port={{ $probePort }}
    {{- if $secure.tlsSecret }}
    - --tls-cert-file=/etc/metrics-tls/tls.crt
    - --tls-private-key-file=/etc/metrics-tls/tls.key
    {{- end }}
  ports:
    - {name: {{ .name | quote }}, containerPort: {{ .port }}}
  livenessProbe:
    httpGet: {path: /healthz, port: {{ $probePort }}, scheme: HTTPS}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
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
  secret: {secretName: {{ .Values.metrics.secure.tlsSecret | quote }}}
{{- end -}}
{{- end -}}
