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

{{/* What plans of large changes take at most, in MiB: 85 for each lane and a
     twelfth of the cache, which never is more than one and a half caches. */}}
{{- define "cuckood.plansMiB" -}}
{{- with .Values.memory -}}
{{- min (add (mul 85 .lanes) (div (add .cacheMiB 11) 12)) (div (add (mul 3 .cacheMiB) 1) 2) -}}
{{- end -}}
{{- end -}}

{{/* The limit in MiB: the caches (pages that wait to be written are in the
     first), RocksDB's write buffers of 128 MiB, bodies, plans, and the rest. */}}
{{- define "cuckood.memoryMiB" -}}
{{- $plans := include "cuckood.plansMiB" . | int -}}
{{- with .Values.memory -}}
{{- add .cacheMiB .blockCacheMiB 128 .bodiesMiB $plans .overheadMiB -}}
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
{{- end }}
{{- if .clientAuthorities.secret }}
authorities:
  secret: {{ .clientAuthorities.secret }}
  items:
    ca.crt: {{ .clientAuthorities.item }}
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
{{- range $service := list $full (printf "%s-headless" $full) (printf "%s-0.%s-headless" $full $full) -}}
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
{{- range $name := list "CUCKOOD_LISTEN" "CUCKOOD_ADMIN_LISTEN" "CUCKOOD_REDIS_LISTEN" "CUCKOOD_REDIS_MAX_CONNECTIONS" "CUCKOOD_REDIS_ALLOW_FLUSH" "CUCKOOD_KEYS_FILE" "CUCKOOD_TLS_CERT" "CUCKOOD_TLS_KEY" "CUCKOOD_TLS_CLIENT_CA" "CUCKOOD_ALLOW_ANONYMOUS" "CUCKOOD_ALLOWED_HOST" "CUCKOOD_DATA_DIR" "CUCKOOD_BACKUP_DIR" "CUCKOOD_BACKUP_KEEP" "CUCKOOD_CACHE_BYTES" "CUCKOOD_BLOCK_CACHE_BYTES" "CUCKOOD_LANES" "CUCKOOD_MAX_BUFFERED_BYTES" "CUCKOOD_MAX_BODY_BYTES" "CUCKOOD_DRAIN_DELAY_SECONDS" "CUCKOOD_DRAIN_TIMEOUT_SECONDS" -}}
{{- if hasKey $.Values.settings $name -}}
{{- fail (printf "settings.%s: the chart sets it; use access, redis, tls, memory, backup or drain instead." $name) -}}
{{- end -}}
{{- end -}}
{{- if gt (int .Values.memory.maxBodyMiB) (int .Values.memory.bodiesMiB) -}}
{{- fail "memory.maxBodyMiB is more than memory.bodiesMiB: a body of that size can never be read; increase memory.bodiesMiB." -}}
{{- end -}}
{{- if and .Values.restore.backup (not .Values.backup.enabled) -}}
{{- fail "restore.backup needs backup.enabled: the backup is read from that volume." -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host." -}}
{{- end -}}
{{- end -}}
