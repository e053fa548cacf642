"""Shapes of real models, as their config.json has them (make_random_model.py)."""

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "attention_bias": False,
         "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
         "num_key_value_heads": 8, "initializer_range": 0.02, "max_position_embeddings": 40960, "rms_norm_eps": 1e-6,
         "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "use_sliding_window": False,
         "tie_word_embeddings": False, "use_cache": True, "vocab_size": 151936}

DEEPSEEK = {"hidden_act": "silu", "attention_bias": False, "attention_dropout": 0.0, "kv_lora_rank": 512,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "moe_layer_freq": 1, "seq_aux": True,
            "aux_loss_alpha": 0.001, "initializer_range": 0.02, "max_position_embeddings": 163840,
            "rms_norm_eps": 1e-6, "rope_theta": 10000, "tie_word_embeddings": False, "use_cache": True}
DEEPSEEK_YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                 "beta_slow": 1}

PRESETS = {
    "qwen3-0.6b": {**QWEN3, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
                   "max_window_layers": 28, "num_attention_heads": 16, "tie_word_embeddings": True},
    "qwen3-8b": {**QWEN3, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
                 "max_window_layers": 36, "num_attention_heads": 32},
    "qwen3-32b": {**QWEN3, "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
                  "max_window_layers": 64, "num_attention_heads": 64},
    "llama-2-7b": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                   "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 4096,
                   "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 4096,
                   "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
                   "rms_norm_eps": 1e-5, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
                   "use_cache": True, "vocab_size": 32000},
    "qwen3-30b-a3b": {**QWEN3, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe",
                      "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
                      "max_window_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
                      "moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8,
                      "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
                      "output_router_logits": False, "router_aux_loss_coef": 0.001},
    "deepseek-v2-lite": {**DEEPSEEK, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
                         "bos_token_id": 100000, "eos_token_id": 100001, "hidden_size": 2048,
                         "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16,
                         "num_key_value_heads": 16, "q_lora_rank": None, "moe_intermediate_size": 1408,
                         "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                         "first_k_dense_replace": 1, "topk_method": "greedy", "n_group": 1, "topk_group": 1,
                         "routed_scaling_factor": 1.0, "scoring_func": "softmax", "norm_topk_prob": False,
                         "rope_scaling": {**DEEPSEEK_YARN, "mscale": 0.707, "mscale_all_dim": 0.707},
                         "vocab_size": 102400},
    "deepseek-v3": {**DEEPSEEK, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
                    "bos_token_id": 0, "eos_token_id": 1, "hidden_size": 7168, "intermediate_size": 18432,
                    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128,
                    "q_lora_rank": 1536, "moe_intermediate_size": 2048, "n_routed_experts": 256,
                    "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
                    "topk_method": "noaux_tc", "n_group": 8, "topk_group": 4, "routed_scaling_factor": 2.5,
                    "scoring_func": "sigmoid", "norm_topk_prob": True,
                    "rope_scaling": {**DEEPSEEK_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}, "vocab_size": 129280},
}


def n_experts(config):
    return config.get("num_experts") or config.get("n_routed_experts") or 0


def has_experts(config, layer):
    """Whether the layer's FFN is a mixture of experts."""
    if not n_experts(config):
        return False
    if config["model_type"] == "qwen3_moe":
        return layer not in config["mlp_only_layers"] and (layer + 1) % config["decoder_sparse_step"] == 0
    return layer >= config["first_k_dense_replace"] and layer % config["moe_layer_freq"] == 0
