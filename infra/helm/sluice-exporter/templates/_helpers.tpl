{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sluice.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* What the restricted level of pod security asks for. */}}
{{- define "sluice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "sluice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* /healthz and /readyz on the port given. */}}
{{- define "sluice.probes" -}}
ports:
  - name: health
    containerPort: {{ . }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
{{- end }}

{{- define "sluice.nodeAgentNamespace" -}}
{{ .Values.nodeAgent.namespace | default .Release.Namespace }}
{{- end }}

{{/* Restricted pod security, which the exporter keeps to, has no host network. */}}
{{- define "sluice.checkNodeAgent" -}}
{{- if and .Values.nodeAgent.hostNetwork (eq (include "sluice.nodeAgentNamespace" .) .Release.Namespace) -}}
{{- fail (printf "nodeAgent.hostNetwork: name a namespace of the agent's own in nodeAgent.namespace, other than %q" .Release.Namespace) -}}
{{- end -}}
{{- end }}

{{- define "sluice.namesAndAzure" -}}
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
- ports:
    - {port: 443, protocol: TCP}
{{- end }}
