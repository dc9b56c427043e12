{{- define "reconciler.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "reconciler.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "reconciler.labels" -}}
{{ include "reconciler.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* config.yaml: the values' settings, and what belongs to the chart. */ -}}
{{- define "reconciler.settings" -}}
{{- $delivery := merge (dict "drainTimeout" (printf "%ds" (int .Values.drainSeconds))) (.Values.settings.delivery | default dict) }}
{{- toYaml (merge (dict "delivery" $delivery) .Values.settings) }}
{{- end }}
