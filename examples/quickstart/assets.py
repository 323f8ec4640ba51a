from servo import asset


@asset
def orders():
    return [{"customer": "ada", "amount": 3}, {"customer": "bob", "amount": 4}]


@asset
def revenue(orders):
    return sum(order["amount"] for order in orders)
