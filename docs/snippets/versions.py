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
for output in first.materializations + second.materializations:
    print(
        output.asset_key,
        output.output_format,
        output.row_count,
        output.byte_size,
        output.output_uri,
    )
