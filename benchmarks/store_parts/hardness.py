def hardness(*a): raise NotImplementedError
