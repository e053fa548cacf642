#include "engine/machine/process_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/model_identity.h"
#include "engine/machine/gpus.h"

static yk_strbuf *add(yk_process_facts *f, const char *name, yk_fact_rule rule)
{
  f->facts[f->n] = (yk_fact){.name = name, .rule = rule};
  f->values[f->n] = YK_STRBUF_INIT;
  yk_strbuf_append(&f->values[f->n], "", 0);
  return &f->values[f->n++];
}

static void add_text(yk_process_facts *f, const char *name, yk_fact_rule rule, const char *text)
{
  yk_strbuf_append_str(add(f, name, rule), text ? text : "");
}

/* A value out of range is refused elsewhere. */
static const char *name_of(const char *const *names, size_t n, int value)
{
  return value >= 0 && (size_t)value < n ? names[value] : "?";
}

/* A text of any length, as its beginning and its hash. */
static void add_long_text(yk_process_facts *f, const char *name, const char *text)
{
  yk_strbuf *value = add(f, name, YK_FACT_EQUAL);
  if (text) yk_strbuf_append_fmt(value, "%.60s (%08x)", text, yk_hash(YK_HASH_START, text, strlen(text)));
}

static void add_number(yk_process_facts *f, const char *name, double number)
{
  yk_strbuf_append_fmt(add(f, name, YK_FACT_EQUAL), "%.15g", number);
}

/* Each adapter's name with a hash of its configuration and weights; of a long list the beginning, and a hash of all.
 * Files that cannot be read are reported when the adapter is loaded. */
static void add_adapters(yk_process_facts *f, const yk_engine_options *o)
{
  enum { MAX_LIST_BYTES = 900 };
  static const char *const files[] = {"adapter_config.json", "adapter_model.safetensors"};
  yk_strbuf *list = add(f, "lora-modules", YK_FACT_EQUAL);
  uint32_t all = YK_HASH_START;
  for (size_t i = 0; o->adapters && i < o->n_adapters; i++) { /* NULL is refused elsewhere */
    const yk_adapter_path *adapter = &o->adapters[i];
    uint32_t identity = YK_HASH_START;
    if (!adapter->name || !adapter->path) continue;
    for (size_t n = 0; n < sizeof files / sizeof *files; n++)
      yk_model_file_identity(adapter->path, files[n], &identity, NULL);
    all = yk_hash(yk_hash(all, adapter->name, strlen(adapter->name) + 1), &identity, sizeof identity);
    if (list->length < MAX_LIST_BYTES)
      yk_strbuf_append_fmt(list, "%s%.30s=%08x", i > 0 ? " " : "", adapter->name, identity);
  }
  if (list->length >= MAX_LIST_BYTES) yk_strbuf_append_fmt(list, " (%08x)", all);
}

/* Options that the arithmetic, the memory or the steps of all ranks depend on. */
static void add_options(yk_process_facts *f, const yk_engine_options *o)
{
  static const char *const dtypes[] = {"auto", "float16", "bfloat16", "float32"};
  static const char *const caches[] = {
      "auto", "float16", "bfloat16", "float32", "int8", "fp8", "int8_per_token_head", "fp8_per_token_head"};
  static const char *const activations[] = {"auto", "fp8", "dtype", "int8"};
  add_number(f, "ranks in all", o->n_ranks);
  add_number(f, "pipeline-parallel-size", o->n_stages);
  add_text(f, "dtype", YK_FACT_EQUAL, name_of(dtypes, sizeof dtypes / sizeof *dtypes, (int)o->dtype));
  add_text(f, "weights", YK_FACT_EQUAL, o->weights == YK_WEIGHTS_F16 ? "f16" : "auto");
  add_text(f, "activations", YK_FACT_EQUAL,
           name_of(activations, sizeof activations / sizeof *activations, (int)o->activations));
  add_text(f, "lm-head", YK_FACT_EQUAL, o->lm_head == YK_LM_HEAD_INT8 ? "int8" : "auto");
  add_text(f, "kv-cache-dtype", YK_FACT_EQUAL, name_of(caches, sizeof caches / sizeof *caches, (int)o->kv_cache_dtype));
  add_number(f, "enable-expert-parallel", o->expert_parallel);
  add_number(f, "disable-custom-all-reduce", o->disable_custom_all_reduce);
  add_number(f, "batch-invariant", o->batch_invariant);
  add_number(f, "max-model-len", o->max_model_tokens);
  add_number(f, "dense-attention-beyond-index", o->dense_attention_beyond_index);
  add_number(f, "max-num-seqs", o->max_seqs);
  add_number(f, "max-num-batched-tokens", o->max_batched_tokens);
  add_number(f, "gpu-memory-utilization", o->gpu_memory_utilization);
  add_number(f, "kv-cache-bytes", (double)o->kv_cache_bytes);
  add_number(f, "state-cache-bytes", (double)o->state_cache_bytes);
  add_number(f, "no-prefix-reuse", o->no_prefix_reuse);
  add_number(f, "step-timeout", o->step_timeout_s);
  add_long_text(f, "hf-overrides", o->hf_overrides);
  add_number(f, "max-loras", o->max_adapters);
  add_number(f, "max-lora-rank", o->max_adapter_rank);
  add_adapters(f, o);
}

static void add_gpus(yk_process_facts *f, const yk_settings *s)
{
  yk_strbuf *ids = add(f, "GPUs", yk_gpus_may_be_shared() ? YK_FACT_SHOWN : YK_FACT_EXCLUSIVE);
  for (int i = 0; i < s->world.n_local && s->device == YK_DEVICE_CUDA; i++) {
    char uuid[YK_GPU_UUID_BYTES];
    if (yk_gpus_uuid(s->device_ids[s->world.first_rank + i], uuid, NULL) == YK_OK)
      yk_strbuf_append_fmt(ids, "%s%s", ids->length ? " " : "", uuid);
  }
}

/* The first word of a number with a point, cut off in place; NULL if there is none. Other words may hold digits, as in
 * "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build". */
static char *version_in(char *line)
{
  char *rest = NULL;
  for (char *word = strtok_r(line, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest))
    if (strchr("0123456789", word[0]) && strchr(word, '.')) return word;
  return NULL;
}

/* The version of the kernel's part of the GPU driver, as "570.86.15". */
static void add_driver(yk_process_facts *f)
{
  char line[256] = "", *version = NULL;
  FILE *file = fopen("/proc/driver/nvidia/version", "r");
  if (file && fgets(line, sizeof line, file)) version = version_in(line);
  if (file) fclose(file);
  add_text(f, "GPU driver", YK_FACT_SHOWN, version);
}

static void add_interfaces(yk_process_facts *f)
{
  enum { MAX_VALUE_BYTES = 900 };
  struct ifaddrs *all = NULL;
  yk_strbuf *text = add(f, YK_FACT_NETWORK, YK_FACT_SHOWN);
  if (getifaddrs(&all) != 0) return;
  for (const struct ifaddrs *at = all; at && text->length < MAX_VALUE_BYTES; at = at->ifa_next) {
    char address[INET6_ADDRSTRLEN] = "";
    if (!at->ifa_addr || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK)) continue;
    if (at->ifa_addr->sa_family == AF_INET)
      inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)at->ifa_addr)->sin_addr, address, sizeof address);
    else if (at->ifa_addr->sa_family == AF_INET6)
      inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)at->ifa_addr)->sin6_addr, address,
                sizeof address);
    if (address[0]) yk_strbuf_append_fmt(text, "%s%s=%s", text->length ? " " : "", at->ifa_name, address);
  }
  freeifaddrs(all);
}

yk_status yk_process_facts_collect(const yk_engine_options *options, const yk_settings *settings, const char *purpose,
                                   uint32_t identity, yk_process_facts *out, yk_err *err)
{
  bool failed = false;
  out->n = 0;
  add_text(out, "version", YK_FACT_EQUAL, yk_version());
  yk_strbuf_append_fmt(add(out, "checkpoint", YK_FACT_EQUAL), "%08x", identity);
  add_text(out, "model", YK_FACT_SHOWN, options->model_dir);
  add_text(out, "device", YK_FACT_EQUAL, settings->device == YK_DEVICE_CUDA ? "cuda" : "cpu");
  if (purpose) add_text(out, "purpose", YK_FACT_EQUAL, purpose);
  if (!purpose) add_options(out, options);
  if (!purpose) add_gpus(out, settings);
  add_driver(out);
  add_interfaces(out);
  for (int i = 0; i < out->n; i++) {
    failed |= out->values[i].failed;
    out->facts[i].value = out->values[i].data;
  }
  if (!failed) return YK_OK;
  yk_process_facts_free(out);
  return yk_err_set(err, YK_E_NOMEM, "no memory for the facts of the roll call");
}

const char *yk_process_facts_value(const yk_process_facts *facts, const char *name)
{
  for (int i = 0; i < facts->n; i++)
    if (strcmp(facts->facts[i].name, name) == 0) return facts->facts[i].value;
  return "";
}

void yk_process_facts_free(yk_process_facts *facts)
{
  for (int i = 0; i < facts->n; i++) yk_strbuf_free(&facts->values[i]);
  facts->n = 0;
}
