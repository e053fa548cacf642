#include "loader/weight_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Every family so far names its modules as Llama does; one that differs gets a table of its own, and the functions
 * below the family. */
static const char *const llama_names[] = {
    [YK_ROLE_EMBEDDING] = "model.embed_tokens",
    [YK_ROLE_FINAL_NORM] = "model.norm",
    [YK_ROLE_LM_HEAD] = "lm_head",
    [YK_ROLE_ATTENTION_NORM] = "input_layernorm",
    [YK_ROLE_FFN_NORM] = "post_attention_layernorm",
    [YK_ROLE_Q] = "self_attn.q_proj",
    [YK_ROLE_K] = "self_attn.k_proj",
    [YK_ROLE_V] = "self_attn.v_proj",
    [YK_ROLE_O] = "self_attn.o_proj",
    [YK_ROLE_Q_NORM] = "self_attn.q_norm",
    [YK_ROLE_K_NORM] = "self_attn.k_norm",
    [YK_ROLE_GATE] = "mlp.gate_proj",
    [YK_ROLE_UP] = "mlp.up_proj",
    [YK_ROLE_DOWN] = "mlp.down_proj",
};

static const char layer_prefix[] = "model.layers.";

void yk_weight_name(yk_weight_role role, int layer, char out[YK_WEIGHT_NAME_BYTES])
{
  if (role < YK_ROLE_ATTENTION_NORM)
    snprintf(out, YK_WEIGHT_NAME_BYTES, "%s", llama_names[role]);
  else
    snprintf(out, YK_WEIGHT_NAME_BYTES, "%s%d.%s", layer_prefix, layer, llama_names[role]);
}

int32_t yk_weight_layer(const char *tensor)
{
  size_t n = sizeof layer_prefix - 1;
  int64_t layer = 0;
  if (strncmp(tensor, layer_prefix, n) != 0 || !isdigit((unsigned char)tensor[n])) return -1;
  for (const char *c = tensor + n; isdigit((unsigned char)*c); c++)
    if (layer < INT32_MAX) layer = layer * 10 + (*c - '0');
  return layer < INT32_MAX ? (int32_t)layer : INT32_MAX;
}
