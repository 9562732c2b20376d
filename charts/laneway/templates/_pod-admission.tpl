{{/* CEL for pod-admission.yaml. */}}

{{/* Whether a container of a list has a share. A request for an extended resource is a limit, too. */}}
{{- define "laneway.cel.hasShare" -}}
{{ . }}.exists(c, {{ include "laneway.cel.requestsShare" "c" }})
{{- end -}}

{{/* Whether a container has a share. */}}
{{- define "laneway.cel.requestsShare" -}}
has({{ . }}.resources) && has({{ . }}.resources.limits) && "laneway.dev/gpu-percent" in {{ . }}.resources.limits
{{- end -}}

{{/* The containers of a list that set reserved variables, a clause for each: (list LIST "init container"). */}}
{{- define "laneway.cel.reservedVariables" -}}
{{ index . 0 }}.filter(c, has(c.env) && c.env.exists(e, {{ include "laneway.cel.isReserved" "e.name" }}))
.map(c, "{{ index . 1 }} " + c.name + " sets " + c.env.filter(e, {{ include "laneway.cel.isReserved" "e.name" }}).map(e, e.name).join(", "))
{{- end -}}

{{/* Whether a name is that of a reserved variable. */}}
{{- define "laneway.cel.isReserved" -}}
{{ . }} == "NVIDIA_VISIBLE_DEVICES" || {{ . }}.startsWith("CUDA_MPS_") || {{ . }}.startsWith("LANEWAY_") && !({{ . }} in variables.allowedVariables)
{{- end -}}

{{/* Whether the request gives a value to `key`, or another one than before: "labels" or "annotations". */}}
{{- define "laneway.cel.writesKey" -}}
{{- $new := printf "object.metadata.%s" . -}}
{{- $old := printf "oldObject.metadata.%s" . -}}
has({{ $new }}) && key in {{ $new }} && (variables.isNew || !has({{ $old }}) || !(key in {{ $old }}) || {{ $new }}[key] != {{ $old }}[key])
{{- end -}}

{{/* The labels that only the operator writes. */}}
{{- define "laneway.cel.operatorsLabels" -}}
["laneway.dev/job", "laneway.dev/job-uid", "laneway.dev/rank", "laneway.dev/attempt", "laneway.dev/gang"]
{{- end -}}

{{/* The annotations that only the operator writes. */}}
{{- define "laneway.cel.operatorsAnnotations" -}}
["laneway.dev/gpus", "laneway.dev/template-hash", "laneway.dev/spans-gpus", "laneway.dev/sharing", "laneway.dev/profile"]
{{- end -}}

{{/* Whether the request takes `key` away: "labels" or "annotations". */}}
{{- define "laneway.cel.removesKey" -}}
{{- $new := printf "object.metadata.%s" . -}}
{{- $old := printf "oldObject.metadata.%s" . -}}
!variables.isNew && has({{ $old }}) && key in {{ $old }} && !(has({{ $new }}) && key in {{ $new }})
{{- end -}}

{{/* The containers of a list whose share a mount of their own would separate them from, a clause for each: (list LIST "init container"). */}}
{{- define "laneway.cel.coveringMounts" -}}
{{ index . 0 }}.filter(c, {{ include "laneway.cel.requestsShare" "c" }} && has(c.volumeMounts) && c.volumeMounts.exists(m, {{ include "laneway.cel.covers" "m.mountPath" }}))
.map(c, "{{ index . 1 }} " + c.name + " mounts a volume at " + c.volumeMounts.filter(m, {{ include "laneway.cel.covers" "m.mountPath" }}).map(m, m.mountPath).join(", "))
{{- end -}}

{{/* Whether a mount at a path is at, below or above what the device plugin mounts into a container, /var/run being a link to /run. */}}
{{- define "laneway.cel.covers" -}}
({{ . }}.split("/").exists(part, part == "..") || [{{ include "laneway.cel.cleanPath" . }}].map(path, path.startsWith("/var/run/") ? path.substring(4) : path).exists(path,
variables.pluginsPaths.exists(reserved, path.startsWith(reserved) || reserved.startsWith(path))))
{{- end -}}

{{/* A path without doubled slashes and dots, and with one slash at its end. */}}
{{- define "laneway.cel.cleanPath" -}}
("/" + {{ . }}.split("/").filter(part, part != "" && part != ".").map(part, part + "/").join(""))
{{- end -}}

{{/* The node's paths by which a pod reaches other GPUs or passes for another pod: a list of prefixes. */}}
{{- define "laneway.cel.nodesPaths" -}}
{{- $paths := list "/run/laneway/" "/var/lib/laneway/" "/var/lib/kubelet/device-plugins/" "/dev/nvidia" "/dev/null/" "/proc/" "/sys/fs/cgroup/" -}}
{{- $paths = concat $paths (list "/etc/cdi/" "/run/cdi/" "/etc/nvidia-container-runtime/" "/run/containerd/" "/run/crio/") -}}
{{- $paths = concat $paths (list "/run/k3s/" "/run/k0s/" "/run/docker/" "/run/docker.sock/" "/run/cri-dockerd.sock/") -}}
{{- range prepend (values (.Values.nodeGroups | default dict)) .Values.node -}}
{{- range compact (list .cdiFolder .nvidiaRuntimeFolder .runtimeSocket .clientFolder) -}}
{{- $paths = append $paths (printf "%s/" (clean .)) -}}
{{- end -}}
{{- end -}}
{{- range $paths -}}
{{- if hasPrefix "/run/" . -}}
{{- $paths = append $paths (printf "/var%s" .) -}}
{{- end -}}
{{- end -}}
{{- uniq $paths | sortAlpha | toJson -}}
{{- end -}}
