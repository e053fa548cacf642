#include "loader/hf/awq_kept.h"

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"

enum { NAME_BYTES = 512, MOST_PARTS = 3 };

/* Layers that vLLM fuses: packed_modules_mapping of its models, and fused_qkv_a_proj of its DeepSeek-V2. */
static const char *const fused[][MOST_PARTS] = {
    {"q_proj", "k_proj", "v_proj"}, {"gate_proj", "up_proj"}, {"q_a_proj", "kv_a_proj_with_mqa"}};

/* Bytes of a name up to the number of an expert; 0 if the module is not an expert's. */
static size_t experts_bytes(const char *module)
{
  static const char experts[] = ".experts.";
  const char *at = strstr(module, experts);
  return at ? (size_t)(at - module) + strlen(experts) : 0;
}

/* Whether the first n bytes of `begin`, the last of which may be the terminating NUL, begin a quantised module's
 * name. */
static bool has_quantised(const yk_awq_modules *modules, const char *begin, size_t n)
{
  size_t first = 0, end = modules->n_quantised;
  while (first < end) {
    size_t middle = first + (end - first) / 2;
    if (strncmp(modules->quantised[middle], begin, n) < 0)
      first = middle + 1;
    else
      end = middle;
  }
  return first < modules->n_quantised && strncmp(modules->quantised[first], begin, n) == 0;
}

void yk_awq_kept_append(const yk_awq_modules *modules, yk_strbuf *list)
{
  const char *last = "";
  size_t n_last = 0;
  for (size_t i = 0; i < modules->n_kept; i++) {
    const char *module = modules->kept[i];
    if (n_last > 0 && strncmp(module, last, n_last) == 0 && module[n_last] == '.') continue; /* experts of one layer */
    size_t n_experts = experts_bytes(module);
    last = module;
    n_last = n_experts > 0 && !has_quantised(modules, module, n_experts) ? n_experts - 1 : strlen(module);
    yk_strbuf_append_str(list, list->length > 0 ? ", " : "");
    yk_json_append_string(list, module, n_last);
  }
}

/* Whether another part of the same fused layer is quantised. */
static bool is_split(const yk_awq_modules *modules, const char *module)
{
  size_t n_experts = experts_bytes(module);
  if (n_experts > 0) return has_quantised(modules, module, n_experts);
  const char *dot = strrchr(module, '.'), *part = dot ? dot + 1 : module;
  for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
    bool is_of_it = false, has_other = false;
    for (size_t j = 0; j < MOST_PARTS && fused[i][j]; j++) {
      char other[NAME_BYTES];
      int n = snprintf(other, sizeof other, "%.*s%s", (int)(part - module), module, fused[i][j]);
      is_of_it = is_of_it || strcmp(part, fused[i][j]) == 0;
      has_other = has_other || (n < NAME_BYTES && has_quantised(modules, other, (size_t)n + 1));
    }
    if (is_of_it) return has_other;
  }
  return false;
}

static bool has_quantised_experts(const yk_awq_modules *modules)
{
  for (size_t i = 0; i < modules->n_quantised; i++)
    if (experts_bytes(modules->quantised[i]) > 0) return true;
  return false;
}

void yk_awq_kept_warn(const yk_awq_modules *modules, int32_t group_size, const yk_log *log)
{
  const char *first = NULL;
  size_t n_split = 0;
  for (size_t i = 0; i < modules->n_kept; i++)
    if (is_split(modules, modules->kept[i]) && n_split++ == 0) first = modules->kept[i];
  if (n_split > 0)
    yk_log_write(log, YK_LOG_WARN,
                 "vLLM will not load this model: %s (%zu modules in all) stays as it is, while other parts of what "
                 "vLLM loads as one layer have 4 bits: q, k and v, gate and up, q_a and kv_a, or the experts of a "
                 "layer",
                 first, n_split);
  if (group_size == -1 && has_quantised_experts(modules))
    yk_log_write(log, YK_LOG_WARN, "vLLM will not load this model: it takes no experts in groups of all their inputs");
}
