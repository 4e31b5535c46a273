{{/* Labels that select a component's pods. Takes [root, component]. */}}
{{- define "pyspider-zk.selector" -}}
app.kubernetes.io/name: pyspider-zk
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Labels of everything that belongs to a component. Takes [root, component]. */}}
{{- define "pyspider-zk.labels" -}}
{{ include "pyspider-zk.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end }}

{{/* The start of an object: its name is RELEASE-SUFFIX. Takes [root, component, suffix]. */}}
{{- define "pyspider-zk.metadata" -}}
metadata:
  name: {{ (index . 0).Release.Name }}-{{ index . 2 }}
  labels:
    {{- include "pyspider-zk.labels" . | nindent 4 }}
{{- end }}

{{/* Host names of the chart's ZooKeeper servers, with blanks between. */}}
{{- define "pyspider-zk.zookeeper.servers" -}}
{{- $server := printf "%s-zookeeper" .Release.Name -}}
{{- range $number := until 3 }}{{ if $number }} {{ end }}{{ $server }}-{{ $number }}.{{ $server }}{{ end -}}
{{- end }}

{{/* ZooKeeper's addresses. */}}
{{- define "pyspider-zk.zookeeper.hosts" -}}
{{- if .Values.zookeeper.enabled -}}
{{- include "pyspider-zk.zookeeper.servers" . | replace " " ":2281," }}:2281
{{- else -}}
{{- .Values.zookeeper.hosts -}}
{{- end -}}
{{- end }}

{{/* config.json: the chart's own, and over it what the values say. */}}
{{- define "pyspider-zk.config" -}}
{{- $zookeeper := dict
  "hosts" (include "pyspider-zk.zookeeper.hosts" .)
  "username" "crawl"
  "password_file" "/run/cluster/zookeeper"
  "tls" true
  "tls_ca" "/run/cluster/ca.pem"
  "tls_certificate" "/run/cluster/client.pem"
  "tls_key" "/run/cluster/client.pem"
  "secret_file" "/run/cluster/secret"
  "xmlrpc_tls" true
  "xmlrpc_tls_ca" "/run/cluster/ca.pem"
  "xmlrpc_tls_certificate" "/run/cluster/scheduler.pem"
  "xmlrpc_tls_key" "/run/cluster/scheduler.pem"
  "metrics" "0.0.0.0:9464"
  "metrics_token_file" "/run/cluster/metrics"
  "drain" .Values.scheduler.drain
  "trusted_hosts" (concat (list "localhost" "127.0.0.1") .Values.webui.hosts) -}}
{{- with .Values.webui.proxies }}{{ $_ := set $zookeeper "trusted_proxies" . }}{{ end }}
{{- $config := dict
  "zookeeper" $zookeeper
  "scheduler" (dict "xmlrpc_host" "0.0.0.0" "xmlrpc_port" 23333)
  "webui" (dict "host" "0.0.0.0" "port" 5000 "need_auth" true) -}}
{{- if .Values.renderer.enabled }}{{ $_ := set $config "phantomjs_proxy" "127.0.0.1:25555" }}{{ end }}
{{- mergeOverwrite $config (deepCopy .Values.config) | toPrettyJson -}}
{{- end }}

{{/* What every pod says of itself: no API, no rights, one user, spread over the nodes. Takes [root, component, user]. */}}
{{- define "pyspider-zk.pod" -}}
automountServiceAccountToken: false
# Variables such as RELEASE_WEBUI_PORT would be taken for settings.
enableServiceLinks: false
{{- with (index . 0).Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ index . 2 }}
  runAsGroup: {{ index . 2 }}
  fsGroup: {{ index . 2 }}
  # Anew at each start it would open PostgreSQL's files to the group, which PostgreSQL refuses.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "pyspider-zk.selector" . | nindent 8 }}
{{- end }}

{{/* What every container says of itself. Takes [root, suffix of the image, tag, resources]. */}}
{{- define "pyspider-zk.container" -}}
{{- $image := (index . 0).Values.image -}}
image: {{ printf "%s%s:%s" $image.repository (index . 1) (index . 2) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
resources:
  {{- toYaml (index . 3) | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* A container of pyspider-zk. Takes [root, resources] and the suffix of the image, if it has one. */}}
{{- define "pyspider-zk.process.container" -}}
{{- $root := index . 0 -}}
{{- $suffix := "" -}}{{ if gt (len .) 2 }}{{ $suffix = index . 2 }}{{ end -}}
{{- include "pyspider-zk.container" (list $root $suffix (default $root.Chart.AppVersion $root.Values.image.tag) (index . 1)) }}
{{- end }}

{{/* A container of a server. Takes [root, name, resources]. */}}
{{- define "pyspider-zk.server.container" -}}
{{- $root := index . 0 -}}
{{- $tag := coalesce $root.Values.image.serversTag $root.Values.image.tag $root.Chart.AppVersion -}}
name: {{ index . 1 }}
{{ include "pyspider-zk.container" (list $root (printf "-%s" (index . 1)) $tag (index . 2)) }}
{{- end }}

{{/* Labels and annotations of a process's pod. Takes [root, component]. */}}
{{- define "pyspider-zk.process.metadata" -}}
metadata:
  labels:
    {{- include "pyspider-zk.selector" . | nindent 4 }}
    pyspider-zk/role: process
  annotations:
    # A change of config.json restarts it.
    pyspider-zk/config: {{ include "pyspider-zk.config" (index . 0) | sha256sum | quote }}
{{- end }}

{{/* Variables of every process. */}}
{{- define "pyspider-zk.process.env" -}}
- {name: AMQP_URL_FILE, value: /run/cluster/message-queue}
- {name: TASKDB_FILE, value: /run/cluster/taskdb}
- {name: PROJECTDB_FILE, value: /run/cluster/projectdb}
- {name: RESULTDB_FILE, value: /run/cluster/resultdb}
{{- end }}

{{- define "pyspider-zk.process.mounts" -}}
- {name: config, mountPath: /etc/pyspider-zk, readOnly: true}
- {name: cluster, mountPath: /run/cluster, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "pyspider-zk.process.volumes" -}}
- name: config
  configMap:
    name: {{ .Release.Name }}-config
- name: cluster
  secret:
    secretName: {{ .Release.Name }}-cluster
    defaultMode: 0440
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
{{- end }}

{{/* The port of a process's metrics and health. */}}
{{- define "pyspider-zk.process.port" -}}
- {name: metrics, containerPort: 9464}
{{- end }}

{{/* The renderer beside a process that fetches, which finds it on loopback. Takes root. */}}
{{- define "pyspider-zk.renderer" -}}
{{- with .Values.renderer -}}
- name: renderer
  args: [-c, /etc/pyspider-zk/config.json, renderer, --pages, {{ .pages | quote }}, --memory, {{ .memory | quote }}]
  {{- include "pyspider-zk.process.container" (list $ .resources "-renderer") | nindent 2 }}
  env:
    {{- include "pyspider-zk.process.env" $ | nindent 4 }}
    - {name: PYSPIDER_ZK_METRICS, value: "0.0.0.0:9465"}
  ports:
    - {name: browser, containerPort: 9465}
  {{- include "pyspider-zk.process.probes" "browser" | nindent 2 }}
  volumeMounts:
    {{- include "pyspider-zk.process.mounts" $ | nindent 4 }}
{{- end }}
{{- end }}

{{/* Probes of a process. One that waits for a server lives and is not ready. Takes the name of its port. */}}
{{- define "pyspider-zk.process.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}, scheme: HTTPS}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{/* Probes of a server, by the script in its image. A slow disk is no reason to end it soon. */}}
{{- define "pyspider-zk.server.probes" -}}
startupProbe:
  exec: {command: [healthcheck]}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 60
readinessProbe:
  exec: {command: [healthcheck]}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}

{{/* At most one pod is taken away at a time. Takes [root, component]. */}}
{{- define "pyspider-zk.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "pyspider-zk.metadata" (list (index . 0) (index . 1) (index . 1)) }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "pyspider-zk.selector" . | nindent 6 }}
{{- end }}

{{/* The claim of a server's volume. Takes [root, size]. */}}
{{- define "pyspider-zk.claim" -}}
- metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with (index . 0).Values.storageClass }}
    storageClassName: {{ . | quote }}
    {{- end }}
    resources:
      requests:
        storage: {{ index . 1 | quote }}
{{- end }}
