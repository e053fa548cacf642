/* linear_names.h - which tensors of a checkpoint are weights of linear layers that quantisers take, by their names
 * alone: of every family that is named as Llama is, with experts and with latent attention. */
#ifndef YK_LOADER_LINEAR_NAMES_H
#define YK_LOADER_LINEAR_NAMES_H

typedef enum yk_weight_kind {
  YK_KIND_OTHER,   /* no weight of a layer (embedding, lm_head, final norm), a norm, a bias, a table */
  YK_KIND_LINEAR,  /* quantisers take it */
  YK_KIND_GATE,    /* a linear layer that decides over experts: it stays as it is */
  YK_KIND_UNKNOWN, /* "model.layers.N.SOMETHING.weight" that no table names */
} yk_weight_kind;

/* yk_weight_kind_of - tensor: its whole name, "model.layers.3.mlp.experts.7.up_proj.weight". Thread: any. */
yk_weight_kind yk_weight_kind_of(const char *tensor);

#endif
