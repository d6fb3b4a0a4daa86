"""A block of a Vision Transformer."""

from __future__ import annotations

from typing import Any

import keras

from keras_attention.blocks.transformer_encoder_block import TransformerEncoderBlock


@keras.saving.register_keras_serializable(package="keras_attention")
class ViTBlock(TransformerEncoderBlock):
    """A block of a Vision Transformer: every patch attends to all, then goes through two dense layers.

    The `TransformerEncoderBlock` with the norms first, GELU, and the epsilon of ViT; it takes the same
    arguments. Stands behind a `PatchEmbedding`, several in a row, with one more norm behind the last.

    ```
    x      = inputs + dropout(attention(norm(inputs)))
    output = x + dropout(gelu(norm(x) W_1 + b_1) W_2 + b_2)
    ```

    Differs from the paper: nothing; no dropout follows GELU, as in `TransformerEncoderBlock`.

    Masks are boolean, True = attend, and go to the attention as masks of both its queries and its keys. The
    mask of the inputs goes on.

    Args:
        intermediate_dim: Integer. Width inside the feed-forward network; four times the channels is usual.
        num_heads: Integer or `None`. Heads of the attention, which divide the channels; needed where
            `attention` is not given. Defaults to `None`.
        epsilon: Number. Added to the variance in the norms. Defaults to `1e-6`.
        **kwargs: The other arguments of `TransformerEncoderBlock`, such as `attention` and `dropout`.

    Call arguments:
        inputs: Tensor of shape `(batch, length, channels)`.
        mask: Boolean tensor of shape `(batch, length)`. Defaults to the mask attached to `inputs`.
        attention_mask: Boolean tensor that broadcasts to the scores; batch and heads may be left out.
        return_attention_scores: Boolean. Whether to return `(output, scores)`. Defaults to `False`.
        training: Boolean. Whether dropout is active.
        use_causal_mask: Boolean. Whether position i attends to 0 ... i only. Defaults to `False`.

    Output shape:
        The shape of `inputs` and, if asked for, scores `(batch, num_heads, length, length)`.

    Example:
    ```python
    import keras
    from keras_attention import PatchEmbedding, ViTBlock

    images = keras.Input((32, 32, 3))
    x = PatchEmbedding(patch_size=4, output_dim=48, use_class_token=True, use_position_embedding=True)(images)
    for _ in range(2):
        x = ViTBlock(intermediate_dim=192, num_heads=4)(x)
    x = keras.layers.LayerNormalization(epsilon=1e-6)(x)
    outputs = keras.layers.Dense(10)(x[:, 0])
    print(outputs.shape)  # (None, 10)
    ```

    Reference:
        [An Image is Worth 16x16 Words](https://arxiv.org/abs/2010.11929)
    """

    def __init__(
        self, intermediate_dim: int, num_heads: int | None = None, epsilon: float = 1e-6, **kwargs: Any
    ) -> None:
        super().__init__(intermediate_dim, num_heads, epsilon=epsilon, **kwargs)
