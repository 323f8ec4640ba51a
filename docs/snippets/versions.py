"""Load the latest version of an asset, or an older one."""

import pyarrow as pa

from servo import asset, load_asset, materialize

prices = [3, 4]


@asset
def sales() -> pa.Table:
    return pa.table({"price": prices})


first = materialize([sales], store="shop")
prices.append(5)
second = materialize([sales], store="shop")

print(load_asset("sales", store="shop")["price"].to_pylist())
print(load_asset("sales", store="shop", as_of=first.run.finished_at)["price"].to_pylist())
for made in first.materializations + second.materializations:
    print(made.asset_key, made.output_format, made.row_count, made.byte_size, made.output_uri)
