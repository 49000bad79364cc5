"""Extensions on pretrained models of transformers; needs the extra `posbench[pretrained]`.

`mounting` puts the suite's encodings and its attention into a model, `configured` reads what the
model's configuration says of its rotation, `forms` finds the encoding that each layer has,
`turned_parts` where in a head it turns, `richer` has what a layer does besides, and `proof` shows
that a mounted model is the model itself and that an extension has taken effect.
"""
