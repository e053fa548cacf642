/* Entries for unquantised layers of an AWQ checkpoint, and the layers that vLLM cannot load unquantised. */
#include "unit/loader_fixture.h"

#include "each_case.h"
#include "loader/hf/awq_kept.h"

enum { MOST = 8 };

#define L0      "model.layers.0."
#define L1      "model.layers.1."
#define MOE     L1 "mlp.experts."
#define WARNING "vLLM will not load this model: "

typedef struct kept_case {
  const char *kept[MOST], *quantised[MOST]; /* to the first NULL */
  const char *names;                        /* of the list */
  int32_t group_size;
  const char *warning; /* its beginning */
} kept_case;

static const kept_case cases[] = {
    {{NULL}, {L0 "self_attn.q_proj"}, "", -1, ""},
    {{L0 "mlp.down_proj", L0 "self_attn.o_proj"},
     {L0 "mlp.gate_proj", L0 "mlp.up_proj", L0 "self_attn.q_proj", L1 "mlp.down_proj"},
     "\"" L0 "mlp.down_proj\", \"" L0 "self_attn.o_proj\"",
     32,
     ""},
    {{L0 "self_attn.k_proj", L1 "self_attn.k_proj"},
     {L0 "self_attn.q_proj", L1 "self_attn.v_proj"},
     "\"" L0 "self_attn.k_proj\", \"" L1 "self_attn.k_proj\"",
     32,
     WARNING L0 "self_attn.k_proj (2 modules in all) stays as it is"},
    {{L0 "self_attn.k_proj"}, {L1 "self_attn.q_proj"}, "\"" L0 "self_attn.k_proj\"", 32, ""}, /* another layer's */
    {{L0 "self_attn.k_proj"}, {L0 "self_attn.q_proj_of_more"}, "\"" L0 "self_attn.k_proj\"", 32, ""},
    {{L1 "self_attn.q_proj"}, {L1 "self_attn.kv_a_proj_with_mqa"}, "\"" L1 "self_attn.q_proj\"", 32, ""},
    {{L1 "self_attn.q_a_proj"},
     {L1 "self_attn.kv_a_proj_with_mqa"},
     "\"" L1 "self_attn.q_a_proj\"",
     32,
     WARNING L1 "self_attn.q_a_proj (1 modules in all)"},
    {{L1 "mlp.shared_experts.up_proj"},
     {L1 "mlp.shared_experts.gate_proj"},
     "\"" L1 "mlp.shared_experts.up_proj\"",
     32,
     WARNING L1 "mlp.shared_experts.up_proj (1 modules in all)"},
    {{L1 "mlp.gate", MOE "0.down_proj", MOE "0.gate_proj", MOE "0.up_proj", MOE "1.down_proj",
      L1 "mlp.shared_expert_gate"},
     {L0 "mlp.experts.0.up_proj", "model.layers.10.mlp.experts.1.up_proj"},
     "\"" L1 "mlp.gate\", \"" L1 "mlp.experts\", \"" L1 "mlp.shared_expert_gate\"",
     32,
     ""},
    {{MOE "1.down_proj", MOE "1.up_proj"},
     {MOE "0.down_proj", MOE "1.gate_proj", MOE "10.up_proj"},
     "\"" MOE "1.down_proj\", \"" MOE "1.up_proj\"",
     32,
     WARNING MOE "1.down_proj (2 modules in all)"},
    {{L1 "mlp.gate"}, {MOE "0.down_proj"}, "\"" L1 "mlp.gate\"", -1, WARNING "it takes no experts"},
};

static void keep_warning(void *user, yk_log_level level, const char *message)
{
  assert_int_equal(level, YK_LOG_WARN);
  snprintf(user, 512, "%s", message);
}

static size_t count(const char *const names[MOST])
{
  size_t n = 0;
  while (n < MOST && names[n]) n++;
  return n;
}

static void names_and_warnings(void **state)
{
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    const kept_case *c = &cases[i];
    const yk_awq_modules modules = {c->kept, count(c->kept), c->quantised, count(c->quantised)};
    char warning[512] = "";
    const yk_log log = {.level = YK_LOG_WARN, .write = keep_warning, .user = warning};
    yk_strbuf list = YK_STRBUF_INIT;
    yk_awq_kept_append(&modules, &list);
    assert_string_equal(list.data ? list.data : "", c->names);
    yk_awq_kept_warn(&modules, c->group_size, &log);
    if (strncmp(warning, c->warning, strlen(c->warning)) != 0 || (!*c->warning && *warning))
      fail_msg("%s: expected \"%s\", found \"%s\"", c->names, c->warning, warning);
    yk_strbuf_free(&list);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_warnings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
