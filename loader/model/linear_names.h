/* linear_names.h - recognise by name the tensors that are weights of linear layers and that quantisers process, for
 * every family with Llama's names, including experts and latent attention. */
#ifndef YK_LOADER_LINEAR_NAMES_H
#define YK_LOADER_LINEAR_NAMES_H

typedef enum yk_weight_kind {
  YK_KIND_OTHER,   /* not a weight of a layer (embedding, lm_head, final norm), or a norm, bias or table */
  YK_KIND_LINEAR,  /* a linear layer that quantisers process */
  YK_KIND_GATE,    /* a linear layer that routes to experts: stays unquantised */
  YK_KIND_UNKNOWN, /* "model.layers.N.SOMETHING.weight" that is in no table */
} yk_weight_kind;

/* yk_weight_kind_of - tensor: the full name, "model.layers.3.mlp.experts.7.up_proj.weight". Thread: any. */
yk_weight_kind yk_weight_kind_of(const char *tensor);

#endif
