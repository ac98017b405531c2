{{/* Names are cut at 52 characters: a StatefulSet adds a hash of ten to one that
     becomes a label. */}}
{{- define "cuckood.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cuckood.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "cuckood.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select the pod. They cannot change during the life of a release. */}}
{{- define "cuckood.selector" -}}
app.kubernetes.io/name: cuckood
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of the job's pods, which the services do not select. */}}
{{- define "cuckood.backupSelector" -}}
app.kubernetes.io/name: cuckood-backup
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "cuckood.labels" -}}
{{ include "cuckood.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "cuckood.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* "yes" for pods of a cluster, else nothing. */}}
{{- define "cuckood.isCluster" -}}
{{- if .Values.log.servers -}}yes{{- end -}}
{{- end -}}

{{/* The name of a pod by which others reach it: its full name, which is in the
     certificate as a wildcard. */}}
{{- define "cuckood.podHost" -}}
{{- $full := include "cuckood.fullname" .context -}}
{{- printf "%s.%s-headless.%s.svc.%s" .pod $full .namespace .context.Values.access.clusterDomain -}}
{{- end -}}

{{/* Whom the job asks for a backup: in a cluster one pod, which says later how far
     it is. */}}
{{- define "cuckood.backupHost" -}}
{{- $full := include "cuckood.fullname" . -}}
{{- if include "cuckood.isCluster" . -}}
{{- include "cuckood.podHost" (dict "pod" (printf "%s-0" $full) "namespace" .Release.Namespace "context" .) -}}
{{- else -}}
{{- printf "%s-headless" $full -}}
{{- end -}}
{{- end -}}

{{/* Labels of the pods that found the cluster. */}}
{{- define "cuckood.foundSelector" -}}
app.kubernetes.io/name: cuckood-found
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* How the brokers of a cluster are reached, for servers and the job that founds
     it. */}}
{{- define "cuckood.brokerEnv" -}}
- name: CUCKOOD_LOG
  value: {{ join "," .Values.log.servers | quote }}
- name: CUCKOOD_CLUSTER
  value: {{ .Values.cluster.name | quote }}
{{- with .Values.log.monitors }}
- name: CUCKOOD_LOG_MONITOR
  value: {{ join "," . | quote }}
{{- end }}
{{- if .Values.log.unsafe }}
- name: CUCKOOD_LOG_UNSAFE
  value: "true"
{{- end }}
{{- if .Values.log.credentials.secret }}
- name: CUCKOOD_LOG_CREDENTIALS
  value: /secrets/credentials/brokers.creds
{{- end }}
{{- if .Values.log.authority.secret }}
- name: CUCKOOD_LOG_CA_FILE
  value: /secrets/brokers/ca.crt
{{- end }}
{{- end -}}

{{/* Secrets for the brokers, like cuckood.secrets, of who has these credentials. */}}
{{- define "cuckood.brokerSecrets" -}}
{{- $credentials := .credentials }}
{{- with .context }}
{{- if include "cuckood.isCluster" . }}
{{- with $credentials }}
{{- if .secret }}
credentials:
  secret: {{ .secret }}
  items:
    brokers.creds: {{ .item }}
{{- end }}
{{- end }}
{{- with .Values.log.authority }}
{{- if .secret }}
brokers:
  secret: {{ .secret }}
  items:
    ca.crt: {{ .item }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Mounts of secrets, from what names them as YAML. */}}
{{- define "cuckood.secretMounts" -}}
{{- range $name := . | fromYaml | keys | sortAlpha }}
# The whole directory: what is mounted alone is never exchanged.
- name: {{ $name }}
  mountPath: /secrets/{{ $name }}
  readOnly: true
{{- end }}
{{- end -}}

{{/* Their volumes. */}}
{{- define "cuckood.secretVolumes" -}}
{{- $secrets := . | fromYaml }}
{{- range $name := keys $secrets | sortAlpha }}
{{- with get $secrets $name }}
- name: {{ $name }}
  secret:
    secretName: {{ .secret }}
    # For the group that fsGroup gives the pod.
    defaultMode: 288
    items:
      {{- range $path, $item := .items }}
      - key: {{ $item }}
        path: {{ $path }}
      {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Ports of addresses such as nats://a:4222, by commas; the second argument is for
     those that name none. */}}
{{- define "cuckood.portsOf" -}}
{{- $ports := list -}}
{{- range .addresses -}}
{{- $ports = append $ports (regexFind "[0-9]+$" (regexFind ":[0-9]+$" .) | default $.otherwise) -}}
{{- end -}}
{{- $ports | uniq | join "," -}}
{{- end -}}

{{/* What the standard "restricted" requires of every pod and container. */}}
{{- define "cuckood.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- define "cuckood.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Threads that change filters. */}}
{{- define "cuckood.lanes" -}}
{{- if include "cuckood.isCluster" . -}}{{- .Values.cluster.lanes -}}{{- else -}}{{- .Values.memory.lanes -}}{{- end -}}
{{- end -}}

{{/* What plans of large changes take at most, in MiB: 85 for each lane and a
     twelfth of the cache, which never is more than one and a half caches. */}}
{{- define "cuckood.plansMiB" -}}
{{- $lanes := include "cuckood.lanes" . | int -}}
{{- with .Values.memory -}}
{{- min (add (mul 85 $lanes) (div (add .cacheMiB 11) 12)) (div (add (mul 3 .cacheMiB) 1) 2) -}}
{{- end -}}
{{- end -}}

{{/* Records of the log that are not yet applied, in MiB. */}}
{{- define "cuckood.recordsMiB" -}}
{{- if include "cuckood.isCluster" . -}}{{- mul 6 .Values.cluster.lanes -}}{{- else -}}0{{- end -}}
{{- end -}}

{{/* The limit in MiB, as docs/limits.md computes it: the caches (the first one with what is
     known, and parked, of its pages), RocksDB's write buffers of 128 MiB, bodies with answers,
     plans, records, and the rest. */}}
{{- define "cuckood.memoryMiB" -}}
{{- $plans := include "cuckood.plansMiB" . | int -}}
{{- $records := include "cuckood.recordsMiB" . | int -}}
{{- with .Values.memory -}}
{{- $bodies := div (add (mul 5 .bodiesMiB) 3) 4 -}}
{{- add .cacheMiB (div (add (mul 3 .cacheMiB) 9) 10) .blockCacheMiB 128 $bodies $plans $records .overheadMiB -}}
{{- end -}}
{{- end -}}

{{- define "cuckood.resources" -}}
{{- $memory := dict "memory" (printf "%sMi" (include "cuckood.memoryMiB" .)) -}}
{{- $limits := merge (dict) .Values.resources.limits $memory -}}
requests:
  {{- toYaml (merge (dict) .Values.resources.requests (pick $limits "memory")) | nindent 2 }}
limits:
  {{- toYaml $limits | nindent 2 }}
{{- end -}}

{{- define "cuckood.gracePeriodSeconds" -}}
{{- with .Values.drain -}}
{{- add .delaySeconds .timeoutSeconds .flushSeconds -}}
{{- end -}}
{{- end -}}

{{/* Secrets that are mounted below /secrets: for each directory the Secret's name
     and its items by file. */}}
{{- define "cuckood.secrets" -}}
{{- with .Values.access.keys }}
{{- if .secret }}
keys:
  secret: {{ .secret }}
  items:
    keys.json: {{ .item }}
{{- end }}
{{- end }}
{{- with .Values.tls }}
{{- if .secret }}
tls:
  secret: {{ .secret }}
  items:
    tls.crt: tls.crt
    tls.key: tls.key
    {{- if and .authority (include "cuckood.isCluster" $) }}
    ca.crt: {{ .authority }}
    {{- end }}
{{- end }}
{{- if .clientAuthorities.secret }}
authorities:
  secret: {{ .clientAuthorities.secret }}
  items:
    ca.crt: {{ .clientAuthorities.item }}
{{- end }}
{{- end }}
{{- include "cuckood.brokerSecrets" (dict "context" . "credentials" .Values.log.credentials) }}
{{- if include "cuckood.isCluster" . }}
{{- with .Values.cluster.key }}
{{- if .secret }}
cluster:
  secret: {{ .secret }}
  items:
    cluster.key: {{ .item }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The scheme of the server's addresses. */}}
{{- define "cuckood.scheme" -}}
{{- if .Values.tls.secret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/* The names by which callers may call the server, by commas; with keys it
     answers to any name unless some are listed. */}}
{{- define "cuckood.allowedHosts" -}}
{{- if or .Values.access.allowAnonymous .Values.access.allowedHosts -}}
{{- $names := list -}}
{{- $full := include "cuckood.fullname" . -}}
{{- $services := list $full (printf "%s-headless" $full) -}}
{{- range $pod := until (max 1 (int .Values.replicas) | int) -}}
{{- $services = append $services (printf "%s-%d.%s-headless" $full $pod $full) -}}
{{- end -}}
{{- range $service := $services -}}
{{- $inNamespace := printf "%s.%s" $service $.Release.Namespace -}}
{{- $names = concat $names (list $service $inNamespace (printf "%s.svc" $inNamespace) (printf "%s.svc.%s" $inNamespace $.Values.access.clusterDomain)) -}}
{{- end -}}
{{- if .Values.ingress.enabled -}}
{{- $names = append $names .Values.ingress.host -}}
{{- end -}}
{{- concat $names .Values.access.allowedHosts | join "," -}}
{{- end -}}
{{- end -}}

{{/* Checks whose messages the schema cannot give. */}}
{{- define "cuckood.refuse" -}}
{{- $hasKeys := ne .Values.access.keys.secret "" -}}
{{- if not (or $hasKeys .Values.access.allowAnonymous) -}}
{{- fail "cuckood needs API keys: create a file of keys (cuckood keys add), put it into a Secret (kubectl create secret generic cuckood-keys --from-file=keys.json) and set access.keys.secret=cuckood-keys. To allow every client in networkPolicy.clients to read, write and delete without a key, set access.allowAnonymous=true." -}}
{{- end -}}
{{- if and $hasKeys .Values.access.allowAnonymous -}}
{{- fail "access.allowAnonymous contradicts access.keys.secret: set only one of them." -}}
{{- end -}}
{{- if and $hasKeys .Values.backup.enabled (not .Values.access.backupKey.secret) -}}
{{- fail "backup.enabled needs access.backupKey.secret: a Secret with an API key of the scope admin, for the backup job." -}}
{{- end -}}
{{- if and .Values.tls.clientAuthorities.secret (not .Values.tls.secret) -}}
{{- fail "tls.clientAuthorities.secret needs tls.secret: without TLS callers present no certificate." -}}
{{- end -}}
{{- range $name := list "CUCKOOD_LISTEN" "CUCKOOD_ADMIN_LISTEN" "CUCKOOD_REDIS_LISTEN" "CUCKOOD_REDIS_MAX_CONNECTIONS" "CUCKOOD_REDIS_ALLOW_FLUSH" "CUCKOOD_KEYS_FILE" "CUCKOOD_TLS_CERT" "CUCKOOD_TLS_KEY" "CUCKOOD_TLS_CLIENT_CA" "CUCKOOD_ALLOW_ANONYMOUS" "CUCKOOD_ALLOWED_HOST" "CUCKOOD_DATA_DIR" "CUCKOOD_BACKUP_DIR" "CUCKOOD_BACKUP_KEEP" "CUCKOOD_CACHE_BYTES" "CUCKOOD_BLOCK_CACHE_BYTES" "CUCKOOD_LANES" "CUCKOOD_LOG" "CUCKOOD_LOG_MONITOR" "CUCKOOD_LOG_UNSAFE" "CUCKOOD_LOG_CREDENTIALS" "CUCKOOD_LOG_CA_FILE" "CUCKOOD_CLUSTER" "CUCKOOD_CLUSTER_CA_FILE" "CUCKOOD_CLUSTER_KEY_FILE" "CUCKOOD_ADVERTISE" "CUCKOOD_MAX_BUFFERED_BYTES" "CUCKOOD_MAX_BODY_BYTES" "CUCKOOD_DRAIN_DELAY_SECONDS" "CUCKOOD_DRAIN_TIMEOUT_SECONDS" -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "settings.%s: the chart sets it; use access, redis, tls, log, cluster, memory, backup or drain instead." $name) -}}
{{- end -}}
{{- end -}}
{{- if gt (int .Values.memory.maxBodyMiB) (int .Values.memory.bodiesMiB) -}}
{{- fail "memory.maxBodyMiB is more than memory.bodiesMiB: a body of that size can never be read; increase memory.bodiesMiB." -}}
{{- end -}}
{{- if and .Values.restore.backup (not .Values.backup.enabled) -}}
{{- fail "restore.backup needs backup.enabled: the backup is read from that volume." -}}
{{- end -}}
{{- if include "cuckood.isCluster" . -}}
{{- if not .Values.cluster.name -}}
{{- fail "log.servers needs cluster.name: the name of the cluster, which no other cluster of these brokers has, such as cluster.name=shop." -}}
{{- end -}}
{{- if not (or .Values.log.monitors .Values.log.credentials.secret .Values.log.unsafe) -}}
{{- fail "log.servers needs log.monitors: the monitoring addresses of all brokers, such as http://nats-0.nats-headless.nats:8222, where pods see that the brokers force what they acknowledge to their disks (sync_interval: always). With log.credentials of a system account they see it without. log.unsafe=true accepts brokers that may lose changes." -}}
{{- end -}}
{{- if and .Values.log.credentials.secret .Values.cluster.found (not .Values.log.founder.secret) -}}
{{- fail "log.credentials.secret needs log.founder.secret: the credentials of the user that may found the cluster, which pods have no rights for; or cluster.found=false." -}}
{{- end -}}
{{- if .Values.tls.clientAuthorities.secret -}}
{{- fail "tls.clientAuthorities.secret contradicts log.servers: the pods of a cluster call each other, and present no certificates." -}}
{{- end -}}
{{- if .Values.restore.backup -}}
{{- fail "restore.backup is for a server in no cluster: docs/cluster.md says how filters come into a cluster." -}}
{{- end -}}
{{- else if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas is %d and log.servers is empty: several servers need the brokers of a cluster, or each would have filters of its own. Set log.servers, log.monitors and cluster.name (docs/cluster.md), or replicas=1." (int .Values.replicas)) -}}
{{- else if .Values.cluster.name -}}
{{- fail "cluster.name needs log.servers: the addresses of the brokers, such as nats://nats-0.nats-headless.nats:4222." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host." -}}
{{- end -}}
{{- end -}}
