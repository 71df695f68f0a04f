{{/* The first part of all names. It tells two releases apart: the Job of dibs init is a hook, and Helm does not ask
whose that is. 40 characters leave room for -serve, -init and -work-NAME. */}}
{{- define "dibs.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if eq .Release.Name "dibs" -}}
dibs
{{- else if gt (len .Release.Name) 35 -}}
{{- printf "%s-%s-dibs" (.Release.Name | trunc 26) (.Release.Name | sha256sum | trunc 8) -}}
{{- else -}}
{{- .Release.Name }}-dibs
{{- end -}}
{{- end -}}

{{/* Seconds of a duration in one unit, as the schema has it. */}}
{{- define "dibs.seconds" -}}
{{- $n := regexFind "[0-9]+" . | int64 -}}
{{- if hasSuffix "h" . }}{{ mul $n 3600 }}{{ else if hasSuffix "m" . }}{{ mul $n 60 }}{{ else }}{{ $n }}{{ end -}}
{{- end -}}

{{/* Refuses what lets the kubelet kill a pod before dibs is done: .of, .drain, .grace. */}}
{{- define "dibs.stops" -}}
{{- $least := add (include "dibs.seconds" .drain | int64) 18 -}}
{{- if lt (int64 .grace) $least -}}
{{- fail (printf "%s: after SIGTERM work may go on for %s, and dibs needs up to 18 s more: set terminationGracePeriodSeconds to %d or more" .of .drain $least) -}}
{{- end -}}
{{- end -}}

{{/* Refuses labels that the chart sets itself. */}}
{{- define "dibs.ownLabels" -}}
{{- range $key, $value := .labels -}}
{{- if or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "helm.sh/" $key) -}}
{{- fail (printf "%s.podLabels: the chart sets %s itself" $.of $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "dibs.selector" -}}
app.kubernetes.io/name: dibs
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end -}}

{{- define "dibs.labels" -}}
{{ include "dibs.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "dibs.image" -}}
{{- $own := default dict .own -}}
{{- $repository := default .root.Values.image.repository $own.repository -}}
{{- $tag := default (default .root.Chart.AppVersion .root.Values.image.tag) $own.tag -}}
{{- if hasPrefix "sha256:" $tag -}}
{{- printf "%s@%s" $repository $tag -}}
{{- else -}}
{{- printf "%s:%s" $repository $tag -}}
{{- end -}}
{{- end -}}

{{- define "dibs.storeSecret" -}}
{{- if .Values.store.existingSecret -}}
{{- .Values.store.existingSecret -}}
{{- else -}}
{{- include "dibs.fullname" . }}-store
{{- end -}}
{{- end -}}

{{/* What pods of all sorts have: .root, .component, .secret, and .own, the values of this sort. */}}
{{- define "dibs.pod" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.serviceAccountName }}
serviceAccountName: {{ . | quote }}
{{- end }}
automountServiceAccountToken: {{ .root.Values.automountServiceAccountToken }}
# A Service by the name of dibs would set variables that begin with DIBS_.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  {{- toYaml .root.Values.securityContext | nindent 2 }}
  seccompProfile:
    type: RuntimeDefault
{{- with .own.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .own.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
volumes:
  # The host's own directory: outcomes that the store has not taken yet. It goes with the pod.
  - name: dibs-state
    emptyDir: {}
  - name: dibs-tmp
    emptyDir: {}
  - name: dibs-store
    secret:
      secretName: {{ .secret | quote }}
      defaultMode: 288 # 0440
      items:
        - key: {{ .root.Values.store.key | quote }}
          path: store
  {{- with .own.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* What containers of all sorts have. */}}
{{- define "dibs.container" -}}
image: {{ include "dibs.image" (dict "root" .root "own" .own.image) | quote }}
command: [/usr/bin/dibs] # your image may have another entrypoint
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- with .own.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
env:
  # Below the volume, which everybody may write to: dibs makes it, for itself.
  - name: DIBS_DIR
    value: /run/dibs/state/dir
  - name: DIBS_STORE_FILE
    value: /run/dibs/store/store
  {{- with .own.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .own.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - name: dibs-state
    mountPath: /run/dibs/state
  - name: dibs-tmp
    mountPath: /tmp
  - name: dibs-store
    mountPath: /run/dibs/store
    readOnly: true
  {{- with .own.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
